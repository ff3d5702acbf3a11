from dataclasses import replace

import pytest

from backends.database.actions import (
    DeleteCluster,
    ForgetCluster,
    Plan,
    StartJob,
    StopJob,
)
from backends.database.launcher import JobState, JobView
from backends.database.observed import LOST_AFTER_MS, Observed, Trouble
from backends.database.plan import (
    PROVE_AGAIN_MS,
    SILENT_AFTER_MS,
    STOP_AGAIN_MS,
    WORKERS_FIRST_MS,
    plan,
    wants_route_proof,
    wants_scheduler_proof,
)
from backends.database.records import Snapshot, WorkerStage
from gateway.domain.cluster import (
    ClusterPhase,
    EventType,
    FailureReason,
    StopReason,
)
from tests.support.database_rows import (
    ABSENT,
    NOW_MS,
    PENDING,
    RETENTION_MS,
    RUNNING,
    SCHEDULER,
    Rows,
    ended,
    rows,
    seen,
    worker_ref,
)

STARTING = rows().cluster(launched=True, started_ms=RUNNING.started_ms)
CALLED = STARTING.cluster(scheduler_port=8786, dashboard_port=8787)
ROUTED = CALLED.cluster(route_host="127.0.0.1")


def plan_now(made: Rows | Snapshot, observed: Observed, at_ms: int = NOW_MS) -> Plan:
    snapshot = made if isinstance(made, Snapshot) else made.build()
    return plan(snapshot, observed, at_ms, retention_ms=RETENTION_MS)


def reasons(step: Plan) -> list[str]:
    assert step.change is not None
    return [event.reason for event in step.change.events]


# An accepted cluster.


def test_a_new_cluster_has_its_scheduler_started():
    step = plan_now(rows(), seen(ABSENT))

    assert step == Plan(actions=(StartJob(SCHEDULER),))


def test_a_start_that_was_not_recorded_is_found_and_not_repeated():
    step = plan_now(rows(), seen(RUNNING))

    assert step.change is not None
    assert step.change.cluster.launched
    assert step.change.cluster.started_ms == RUNNING.started_ms
    assert step.actions == ()
    assert reasons(step) == ["SchedulerStarted"]


def test_a_scheduler_that_cannot_tell_when_it_began_counts_from_now():
    step = plan_now(rows(), seen(JobView(JobState.RUNNING)))

    assert step.change is not None
    assert step.change.cluster.started_ms == NOW_MS


def test_w12_waiting_in_the_queue_of_the_platform_is_never_late():
    queued = rows().cluster(launched=True, created_ms=0)

    step = plan_now(queued, seen(PENDING))

    assert step == Plan()


def test_a_job_in_the_queue_is_recorded_as_launched_but_not_as_started():
    step = plan_now(rows(), seen(PENDING))

    assert step.change is not None
    assert step.change.cluster.launched
    assert step.change.cluster.started_ms is None


def test_nothing_is_written_while_a_scheduler_is_waited_for():
    step = plan_now(STARTING, seen())

    assert step == Plan(look_again_ms=NOW_MS - 1000 + 60_000)


def test_no_deadline_counts_before_the_start_was_recorded():
    step = plan_now(rows().cluster(launched=True), seen(JobView(JobState.RUNNING)))

    assert step.change is not None
    assert step.change.cluster.active


# Proofs.


def test_a_reported_port_is_worth_nothing_until_it_is_proved():
    step = plan_now(CALLED, seen(scheduler_proved=False))

    assert step == Plan(look_again_ms=NOW_MS + PROVE_AGAIN_MS)


def test_a_proved_scheduler_gets_its_route():
    step = plan_now(CALLED, seen(scheduler_proved=True))

    assert step.change is not None
    route = step.change.cluster.route
    assert route is not None
    assert (route.host, route.scheduler_port, route.dashboard_port) == (
        "127.0.0.1",
        8786,
        8787,
    )
    assert step.change.cluster.phase is ClusterPhase.PENDING


def test_w18_running_is_said_only_once_the_public_port_answers():
    waits = plan_now(ROUTED, seen())
    runs = plan_now(ROUTED, seen(route_proved=True))

    assert waits == Plan(look_again_ms=NOW_MS + PROVE_AGAIN_MS)
    assert runs.change is not None
    assert runs.change.cluster.phase is ClusterPhase.RUNNING
    assert runs.change.cluster.running_ms == NOW_MS


@pytest.mark.parametrize(
    ("made", "view", "want"),
    [
        pytest.param(STARTING, RUNNING, (False, False), id="not-called"),
        pytest.param(CALLED, RUNNING, (True, False), id="called"),
        pytest.param(CALLED, PENDING, (False, False), id="called-but-not-running"),
        pytest.param(ROUTED, RUNNING, (False, True), id="routed"),
        pytest.param(rows().running(), RUNNING, (False, False), id="running"),
        pytest.param(
            CALLED.cluster(active=False), RUNNING, (False, False), id="stopping"
        ),
    ],
)
def test_proofs_are_asked_for_only_when_they_decide_something(made, view, want):
    cluster = made.build().cluster

    assert (wants_scheduler_proof(cluster, view), wants_route_proof(cluster)) == want


# Failures, each with its reason.


@pytest.mark.parametrize(
    ("made", "observed", "at_ms", "want_reason", "want_text"),
    [
        pytest.param(
            rows(),
            seen(ABSENT, refused={SCHEDULER: "no such command: dusk"}),
            NOW_MS,
            FailureReason.START_FAILED,
            "no such command: dusk",
            id="refused",
        ),
        pytest.param(
            STARTING,
            seen(ended(3, "", "boom")),
            NOW_MS,
            FailureReason.SCHEDULER_ENDED,
            "scheduler ended with exit status 3",
            id="ended-while-starting",
        ),
        pytest.param(
            rows().running(),
            seen(ended(-9)),
            NOW_MS,
            FailureReason.SCHEDULER_ENDED,
            "scheduler was ended by SIGKILL",
            id="ended-while-running",
        ),
        pytest.param(
            STARTING,
            seen(ABSENT, absent_since_ms={SCHEDULER: NOW_MS - LOST_AFTER_MS}),
            NOW_MS,
            FailureReason.SCHEDULER_LOST,
            "without a trace",
            id="lost-while-starting",
        ),
        pytest.param(
            rows().running(),
            seen(ABSENT, absent_since_ms={SCHEDULER: NOW_MS - LOST_AFTER_MS}),
            NOW_MS,
            FailureReason.SCHEDULER_LOST,
            "without a trace",
            id="lost-while-running",
        ),
        pytest.param(
            STARTING,
            seen(),
            NOW_MS + 59_000,
            FailureReason.START_DEADLINE_PASSED,
            "did not call the gateway within 60 s",
            id="never-called",
        ),
        pytest.param(
            CALLED,
            seen(scheduler_proved=False),
            NOW_MS + 59_000,
            FailureReason.START_DEADLINE_PASSED,
            "port 8786",
            id="never-proved",
        ),
        pytest.param(
            ROUTED,
            seen(),
            NOW_MS + 59_000,
            FailureReason.ROUTE_FAILED,
            "public port",
            id="never-routed",
        ),
        pytest.param(
            rows(),
            seen(ABSENT, troubles={SCHEDULER: Trouble("disk full", NOW_MS - 60_000)}),
            NOW_MS,
            FailureReason.START_DEADLINE_PASSED,
            "disk full",
            id="cannot-be-started",
        ),
    ],
)
def test_a_failure_is_written_with_its_reason_before_anything_is_torn_down(
    made, observed, at_ms, want_reason, want_text
):
    step = plan_now(made, observed, at_ms)

    assert step.change is not None
    cluster = step.change.cluster
    assert (cluster.reason, cluster.is_failing) == (want_reason, True)
    assert want_text in cluster.message
    assert not cluster.active
    assert not cluster.phase.is_terminal
    assert step.actions == ()
    assert reasons(step) == [want_reason]


def test_what_an_ended_scheduler_said_last_is_kept():
    step = plan_now(STARTING, seen(ended(3, "", "Traceback", "boom")))

    assert step.change is not None
    assert step.change.cluster.exit_code == 3
    assert step.change.cluster.log_tail == ("Traceback", "boom")


def test_w13_a_start_has_a_deadline_from_when_the_job_runs():
    just_before = plan_now(STARTING, seen(), NOW_MS + 58_999)

    assert just_before == Plan(look_again_ms=NOW_MS + 59_000)


def test_time_in_which_no_gateway_was_there_does_not_count():
    """W15: after kill -9 a scheduler gets its whole time to call the next one."""
    back = NOW_MS + 600_000
    observed = seen(serving_since_ms=back)

    step = plan_now(STARTING, observed, back + 1000)

    assert step == Plan(look_again_ms=back + 60_000)


def test_a_start_that_fails_for_a_while_is_tried_again():
    trouble = {SCHEDULER: Trouble("disk full", NOW_MS - 1000)}

    step = plan_now(rows(), seen(ABSENT, troubles=trouble))

    assert step == Plan(
        actions=(StartJob(SCHEDULER),), look_again_ms=NOW_MS - 1000 + 60_000
    )


@pytest.mark.parametrize("made", [STARTING, rows().running()], ids=["start", "run"])
def test_a_scheduler_that_is_out_of_sight_for_a_moment_is_not_lost(made):
    observed = seen(ABSENT, absent_since_ms={SCHEDULER: NOW_MS - 1000})

    step = plan_now(made, observed)

    assert step.change is None
    assert step.actions == ()
    assert step.look_again_ms == NOW_MS - 1000 + LOST_AFTER_MS


def test_one_that_was_never_looked_for_before_is_given_its_time():
    step = plan_now(STARTING, seen(ABSENT))

    assert step == Plan(look_again_ms=NOW_MS + LOST_AFTER_MS)


# Teardown.


STOPPING = (
    rows()
    .running(2)
    .worker(WorkerStage.CONNECTED)
    .worker(WorkerStage.STOPPING)
    .worker(WorkerStage.ENDED)
    .cluster(active=False, reason=StopReason.USER)
)


EVERYTHING = (StopJob(SCHEDULER), StopJob(worker_ref(0)), StopJob(worker_ref(1)))


@pytest.mark.parametrize("scheduler", [RUNNING, ended(1), PENDING, ABSENT])
def test_everything_is_stopped_of_which_something_may_be_left(scheduler):
    step = plan_now(STOPPING, seen(scheduler))

    assert step == Plan(actions=EVERYTHING, look_again_ms=NOW_MS + STOP_AGAIN_MS)


def test_a_scheduler_is_kept_until_its_workers_have_ended():
    observed = seen(workers={0: RUNNING, 1: ended(0)})

    step = plan_now(STOPPING, observed)

    assert step.actions == EVERYTHING[1:]
    assert step.look_again_ms == NOW_MS + STOP_AGAIN_MS


@pytest.mark.parametrize("scheduler", [ended(1), PENDING, ABSENT])
def test_a_scheduler_that_does_not_run_is_no_use_to_its_workers(scheduler):
    step = plan_now(STOPPING, seen(scheduler, workers={0: RUNNING}))

    assert step.actions == EVERYTHING


def test_a_scheduler_is_not_kept_for_workers_that_do_not_end():
    asked_ms = {worker_ref(0): NOW_MS - WORKERS_FIRST_MS}
    observed = seen(workers={0: RUNNING}, asked_ms=asked_ms)

    assert plan_now(STOPPING, observed, NOW_MS - 1).actions == EVERYTHING[1:]
    assert plan_now(STOPPING, observed).actions == EVERYTHING


def test_w11_nothing_is_called_stopped_while_a_stop_has_not_succeeded():
    observed = seen(ABSENT, stopped=frozenset({SCHEDULER, worker_ref(0)}))

    step = plan_now(STOPPING, observed)

    assert step.change is None
    assert step.actions == (StopJob(worker_ref(1)),)


def test_a_cluster_has_stopped_when_nothing_of_it_is_left():
    gone = frozenset({SCHEDULER, worker_ref(0), worker_ref(1)})

    step = plan_now(STOPPING, seen(ended(0), stopped=gone))

    assert step.change is not None
    assert step.change.cluster.phase is ClusterPhase.STOPPED
    assert step.change.cluster.stopped_ms == NOW_MS
    assert step.change.cluster.reserved_workers == 0
    assert {w.stage for w in step.change.workers} == {WorkerStage.ENDED}
    assert [w.ordinal for w in step.change.workers] == [0, 1]
    assert step.change.cluster.log_tail == ()
    assert reasons(step) == ["Stopped"]


def test_w7_a_failing_cluster_ends_as_failed_and_never_as_stopped():
    failing = STARTING.cluster(
        active=False,
        is_failing=True,
        reason=FailureReason.START_DEADLINE_PASSED,
        message="late",
    )
    gone = frozenset({SCHEDULER})

    step = plan_now(failing, seen(ended(-15, "", "waiting for"), stopped=gone))

    assert step.change is not None
    assert step.change.cluster.phase is ClusterPhase.FAILED
    assert step.change.cluster.reason == FailureReason.START_DEADLINE_PASSED
    assert step.change.cluster.log_tail == ("waiting for",)


def test_the_last_lines_of_the_verdict_are_not_overwritten():
    failing = STARTING.cluster(active=False, is_failing=True, log_tail=("first",))

    step = plan_now(
        failing, seen(ended(1, "", "later"), stopped=frozenset({SCHEDULER}))
    )

    assert step.change is not None
    assert step.change.cluster.log_tail == ("first",)


# After the end.


@pytest.mark.parametrize("phase", [ClusterPhase.STOPPED, ClusterPhase.FAILED])
def test_an_ended_cluster_is_kept_and_then_deleted(phase):
    over = rows().ended(phase)

    kept = plan_now(over, seen(ABSENT))
    due = plan_now(over, seen(ABSENT), NOW_MS + RETENTION_MS)

    assert kept == Plan(look_again_ms=NOW_MS + RETENTION_MS)
    assert due == Plan(actions=(ForgetCluster(), DeleteCluster()))


def test_what_is_left_of_an_ended_cluster_is_stopped_and_its_record_stands():
    step = plan_now(rows().ended(), seen(RUNNING), NOW_MS + RETENTION_MS)

    assert step == Plan(
        actions=(StopJob(SCHEDULER),),
        look_again_ms=NOW_MS + RETENTION_MS + STOP_AGAIN_MS,
    )


def test_an_end_without_an_instant_counts_from_the_creation():
    over = rows().ended().cluster(stopped_ms=None, created_ms=NOW_MS - RETENTION_MS)

    assert plan_now(over, seen(ABSENT)).actions == (ForgetCluster(), DeleteCluster())


# Lifetimes, and silence.


def test_an_idle_cluster_is_stopped_and_says_why():
    idle = rows().running().config(idle_timeout_s=60).heard(idle_s=61)

    step = plan_now(idle, seen())

    assert step.change is not None
    assert step.change.cluster.reason == StopReason.IDLE
    assert not step.change.cluster.active
    assert not step.change.cluster.is_failing


def test_the_hard_limit_is_looked_for_when_it_is_due():
    limited = rows().running().config(max_lifetime_s=100)

    limited = limited.cluster(is_warned=True)
    step = plan_now(limited, seen())
    late = plan_now(limited, seen(), NOW_MS + 30_000)

    assert step.look_again_ms == NOW_MS + 30_000
    assert late.change is not None
    assert late.change.cluster.reason == StopReason.LIFETIME


def test_row_40_people_are_warned_once_when_four_fifths_of_a_life_are_over():
    limited = rows().running().config(max_lifetime_s=100)

    before = plan_now(limited, seen())
    step = plan_now(limited, seen(), NOW_MS + 10_000)

    assert before == Plan(look_again_ms=NOW_MS + 10_000)
    assert step.change is not None
    assert step.change.cluster == replace(limited.build().cluster, is_warned=True)
    (event,) = step.change.events
    assert (event.type, event.reason) == (EventType.WARNING, "MaxLifetimeNear")
    assert "100 s after it was made (max_lifetime)" in event.message
    assert step.look_again_ms == NOW_MS + 30_000
    told = limited.cluster(is_warned=True)
    assert plan_now(told, seen(), NOW_MS + 10_000) == Plan(
        look_again_ms=NOW_MS + 30_000
    )


def test_w10_a_silent_scheduler_is_told_of_once_and_never_killed():
    silent = rows().running(1).worker(WorkerStage.CONNECTED).heard(age_s=3600)

    step = plan_now(silent, seen(workers={0: RUNNING}))

    assert step.change is not None
    assert step.change.cluster == replace(silent.build().cluster, is_silent=True)
    assert step.actions == ()
    assert reasons(step) == ["SchedulerSilent"]
    told = silent.cluster(is_silent=True)
    assert plan_now(told, seen(workers={0: RUNNING})) == Plan()


def test_silence_is_counted_from_when_the_gateway_can_be_called():
    unheard = Rows(replace(rows().running().build(), beat=None))

    step = plan_now(unheard, seen(serving_since_ms=NOW_MS - 1000))

    assert step == Plan(look_again_ms=NOW_MS - 1000 + SILENT_AFTER_MS)


def test_silence_is_written_together_with_what_else_there_is():
    silent = rows().running(1).heard(age_s=3600)

    step = plan_now(silent, seen())

    assert reasons(step) == ["WorkersAdded", "SchedulerSilent"]
    assert step.actions == (StartJob(worker_ref(0)),)


def test_a_running_cluster_with_all_it_wants_is_left_alone():
    calm = rows().running(2).worker(WorkerStage.CONNECTED, 2)

    step = plan_now(calm, seen(workers={0: RUNNING, 1: RUNNING}))

    assert step == Plan(look_again_ms=NOW_MS - 1000 + SILENT_AFTER_MS)
