from dataclasses import replace

import pytest

from backends.database.actions import Plan, StartJob, StopJob
from backends.database.launcher import JobState, JobView
from backends.database.observed import LOST_AFTER_MS, Observed, Trouble
from backends.database.records import LeaveCause, Snapshot, WorkerRecord, WorkerStage
from backends.database.workforce import (
    RESTART_WINDOW_MS,
    ROWS_PER_PLAN,
    STARTS_PER_PLAN,
    plan_workforce,
)
from gateway.domain.cluster import FailureReason
from tests.support.database_rows import (
    ABSENT,
    NOW_MS,
    PENDING,
    RUNNING,
    Rows,
    ended,
    rows,
    seen,
    worker_ref,
)

WANTED, STARTED = WorkerStage.WANTED, WorkerStage.STARTED
CONNECTED, DRAINING = WorkerStage.CONNECTED, WorkerStage.DRAINING
STOPPING, ENDED = WorkerStage.STOPPING, WorkerStage.ENDED


def plan_now(made: Rows, observed: Observed, at_ms: int = NOW_MS) -> Plan:
    return plan_workforce(made.build(), observed, at_ms)


def apply(snapshot: Snapshot, step: Plan) -> Snapshot:
    """Return the rows after ``step`` was written."""
    if step.change is None:
        return snapshot
    changed = {w.ordinal: w for w in (*snapshot.workers, *step.change.workers)}
    return replace(
        snapshot, cluster=step.change.cluster, workers=tuple(changed.values())
    )


def rows_of(step: Plan) -> dict[int, WorkerRecord]:
    assert step.change is not None
    return {w.ordinal: w for w in step.change.workers}


# More are wanted.


def test_rows_are_written_for_what_is_missing_and_then_started():
    step = plan_now(rows().running(2), seen())

    assert {n: w.stage for n, w in rows_of(step).items()} == {0: WANTED, 1: WANTED}
    assert step.actions == (StartJob(worker_ref(0)), StartJob(worker_ref(1)))
    assert step.change is not None
    assert step.change.cluster.next_ordinal == 2
    assert [e.message for e in step.change.events] == ["added 2 workers; 2 are wanted"]


def test_ordinals_never_come_back():
    made = rows().running(1).worker(ENDED, 3)

    step = plan_now(made, seen())

    assert list(rows_of(step)) == [3]


def test_a_wanted_row_whose_job_is_not_there_is_started_again_without_a_write():
    made = rows().running(1).worker(WANTED)

    step = plan_now(made, seen())

    assert step == Plan(actions=(StartJob(worker_ref(0)),))


def test_a_start_of_which_the_answer_was_lost_is_not_repeated():
    made = rows().running(1).worker(WANTED)

    step = plan_now(made, seen(workers={0: RUNNING}))

    assert rows_of(step)[0].stage is STARTED
    assert rows_of(step)[0].started_ms == RUNNING.started_ms
    assert step.actions == ()


def test_w12_a_worker_in_the_queue_is_never_late():
    made = rows().running(1).worker(WANTED)

    queued = plan_now(made, seen(workers={0: PENDING}))
    later = plan_workforce(
        apply(made.build(), queued), seen(workers={0: PENDING}), NOW_MS + 10**9
    )

    assert rows_of(queued)[0].started_ms is None
    assert later == Plan()


def test_a_job_that_leaves_the_queue_begins_to_count():
    made = rows().running(1).worker(STARTED, started_ms=None)

    step = plan_now(made, seen(workers={0: JobView(JobState.RUNNING)}))

    assert rows_of(step)[0].started_ms == NOW_MS


def test_a_thousand_starts_do_not_keep_a_stop_waiting():
    step = plan_now(rows().running(5000), seen())

    assert len(rows_of(step)) == ROWS_PER_PLAN
    assert len(step.actions) == STARTS_PER_PLAN
    assert step.look_again_ms is None  # a change was written: the next look is at once


# Fewer are wanted.


def test_starting_workers_go_first_and_the_newest_of_them():
    made = rows().running(3).worker(CONNECTED, 2).worker(STARTED).worker(WANTED, 2)
    views = {0: RUNNING, 1: RUNNING, 2: RUNNING}

    step = plan_now(made, seen(workers=views))

    assert {n: (w.stage, w.cause) for n, w in rows_of(step).items()} == {
        3: (STOPPING, LeaveCause.SURPLUS),
        4: (STOPPING, LeaveCause.SURPLUS),
    }
    assert step.actions == (StopJob(worker_ref(3)), StopJob(worker_ref(4)))


def test_one_that_may_have_connected_stays_until_the_scheduler_knows_the_number():
    """It may hold data by now: the scheduler tells of it, or that it is not there."""
    made = rows().running(1).worker(CONNECTED).worker(STARTED).worker(WANTED)
    views = {0: RUNNING, 1: RUNNING}

    early = plan_now(made.cluster(generation=5).heard(seen=4), seen(workers=views))
    told = plan_now(made.cluster(generation=5).heard(seen=5), seen(workers=views))

    assert list(rows_of(early)) == [2]
    assert early.look_again_ms is not None
    assert {n: w.stage for n, w in rows_of(told).items()} == {1: STOPPING, 2: STOPPING}


def test_a_worker_in_the_queue_need_not_wait_for_the_scheduler_to_know():
    made = rows().running(0).worker(STARTED, started_ms=None).heard(seen=0)

    step = plan_now(made.cluster(generation=5), seen(workers={0: PENDING}))

    assert rows_of(step)[0].stage is STOPPING


def test_w1_the_right_number_of_starting_workers_is_stopped():
    made = rows().running(9).worker(STARTED, 10)
    views = dict.fromkeys(range(10), RUNNING)

    step = plan_now(made, seen(workers=views))

    assert list(rows_of(step)) == [9]


def test_connected_workers_are_only_ever_the_schedulers_to_drain():
    made = rows().running(0).worker(CONNECTED, 3).worker(DRAINING)
    views = dict.fromkeys(range(4), RUNNING)

    step = plan_now(made, seen(workers=views))

    assert step == Plan()


def test_those_that_leave_already_count_as_leaving():
    made = rows().running(1).worker(STARTED, 2).worker(STOPPING)

    step = plan_now(made, seen(workers=dict.fromkeys(range(3), RUNNING)))

    assert list(rows_of(step)) == [1]


def test_nobody_is_replaced_before_nothing_is_left_of_them():
    made = rows().running(2).worker(CONNECTED).worker(STOPPING)
    views = {0: RUNNING, 1: ended(0)}

    waits = plan_now(made, seen(workers=views))
    gone = plan_now(made, seen(workers=views, stopped=frozenset({worker_ref(1)})))

    assert waits.change is None
    assert waits.actions == (StopJob(worker_ref(1)),)
    assert waits.look_again_ms is not None
    assert {n: w.stage for n, w in rows_of(gone).items()} == {1: ENDED, 2: WANTED}


def test_what_still_runs_is_reserved_though_less_is_wanted():
    made = rows().running(5).worker(CONNECTED, 5).cluster(replicas=1)

    step = plan_now(made, seen(workers=dict.fromkeys(range(5), RUNNING)))

    assert step == Plan()
    assert made.build().cluster.reserved_workers == 5


def test_a_reservation_falls_when_workers_have_left():
    made = rows().running(1).worker(CONNECTED).worker(STOPPING)

    step = plan_now(
        made, seen(workers={0: RUNNING}, stopped=frozenset({worker_ref(1)}))
    )

    assert step.change is not None
    assert made.build().cluster.reserved_workers == 2
    assert step.change.cluster.reserved_workers == 1


# Workers that end.


@pytest.mark.parametrize(
    ("stage", "code", "want"),
    [
        pytest.param(STARTED, 0, LeaveCause.FAULT, id="before-it-connected"),
        pytest.param(WANTED, 1, LeaveCause.FAULT, id="before-it-was-seen"),
        pytest.param(CONNECTED, 1, LeaveCause.FAULT, id="crashed"),
        pytest.param(CONNECTED, None, LeaveCause.FAULT, id="nobody-knows"),
        pytest.param(CONNECTED, 0, LeaveCause.RETURNED, id="by-itself"),
        pytest.param(DRAINING, 0, LeaveCause.DRAINED, id="drained"),
        pytest.param(DRAINING, -15, LeaveCause.DRAINED, id="drained-hard"),
    ],
)
def test_why_a_worker_left_is_told_by_where_it_was(stage, code, want):
    made = rows().running(1).worker(stage)

    step = plan_now(made, seen(workers={0: ended(code)}))

    row = rows_of(step)[0]
    assert (row.stage, row.cause, row.exit_code) == (STOPPING, want, code)
    assert row.stopped_ms == NOW_MS
    assert step.actions == (StopJob(worker_ref(0)),)


def test_a_worker_that_ended_keeps_its_own_exit_code():
    made = rows().running(0).worker(STOPPING, exit_code=3)

    step = plan_now(
        made, seen(workers={0: ended(0)}, stopped=frozenset({worker_ref(0)}))
    )

    assert rows_of(step)[0].exit_code == 3


def test_a_worker_that_was_stopped_has_the_exit_code_of_its_stop():
    made = rows().running(0).worker(STOPPING)

    step = plan_now(
        made, seen(workers={0: ended(-15)}, stopped=frozenset({worker_ref(0)}))
    )

    assert rows_of(step)[0].exit_code == -15


def test_a_refused_worker_leaves_with_the_reason():
    made = rows().running(1).worker(WANTED)

    step = plan_now(made, seen(refused={worker_ref(0): "no such command"}))

    assert rows_of(step)[0].message == "cannot be started: no such command"


def test_a_start_that_keeps_failing_is_given_up_in_time():
    made = rows(worker_start_timeout_s=60).running(1).worker(WANTED)
    trouble = {worker_ref(0): Trouble("disk full", NOW_MS)}

    tries = plan_now(made, seen(troubles=trouble))
    gives_up = plan_now(made, seen(troubles=trouble), NOW_MS + 60_000)

    assert tries == Plan(
        actions=(StartJob(worker_ref(0)),), look_again_ms=NOW_MS + 60_000
    )
    assert "disk full" in rows_of(gives_up)[0].message
    assert rows_of(gives_up)[0].cause is LeaveCause.FAULT


@pytest.mark.parametrize(
    ("stage", "want"),
    [(CONNECTED, LeaveCause.FAULT), (DRAINING, LeaveCause.DRAINED)],
)
def test_a_worker_out_of_sight_is_lost_only_after_a_while(stage, want):
    made = rows().running(1).worker(stage)

    waits = plan_now(made, seen(absent_since_ms={worker_ref(0): NOW_MS - 1}))
    lost = plan_now(made, seen(absent_since_ms={worker_ref(0): NOW_MS - LOST_AFTER_MS}))

    assert waits == Plan(look_again_ms=NOW_MS - 1 + LOST_AFTER_MS)
    assert rows_of(lost)[0].cause is want


def test_a_worker_that_never_connects_is_stopped_at_its_deadline():
    made = rows(worker_start_timeout_s=60).running(1).worker(STARTED)
    at_ms = NOW_MS - 10_000 + 60_000

    waits = plan_now(made, seen(workers={0: RUNNING}))
    late = plan_now(made.heard(age_s=-49), seen(workers={0: RUNNING}), at_ms)

    assert waits == Plan(look_again_ms=at_ms)
    assert rows_of(late)[0].message == "did not connect to the scheduler within 60 s"
    assert rows_of(late)[0].is_failed_start


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(rows().running(1).heard(age_s=3600), id="silent"),
        pytest.param(
            Rows(replace(rows().running(1).build(), beat=None)), id="never-heard"
        ),
    ],
)
def test_no_worker_is_blamed_while_the_scheduler_says_nothing(made):
    made = made.worker(STARTED, started_ms=0)

    step = plan_now(made, seen(workers={0: RUNNING}))

    assert step == Plan(look_again_ms=NOW_MS + 60_000)


def test_a_row_that_has_ended_is_not_looked_at():
    made = rows().running(0).worker(ENDED)

    assert plan_now(made, seen(workers={0: RUNNING})) == Plan()


# Crash loops.


def crashed(count: int, **fields: object) -> tuple[Rows, Observed]:
    made = rows(worker_start_failure_limit=3).running(count)
    made = made.worker(
        STOPPING, count, cause=LeaveCause.FAULT, exit_code=3, message="ended", **fields
    )
    refs = [worker_ref(n) for n in range(count)]
    views = dict.fromkeys(range(count), ended(3, "", "ImportError: x"))
    return made, seen(workers=views, stopped=frozenset(refs))


def test_too_many_failed_starts_in_a_row_fail_the_cluster_with_the_last_ones_words():
    made, observed = crashed(3)

    step = plan_now(made, observed)

    assert step.change is not None
    cluster = step.change.cluster
    assert cluster.reason == FailureReason.WORKERS_CRASHING
    assert cluster.is_failing
    assert not cluster.active
    assert cluster.exit_code == 3
    assert cluster.log_tail == ("ImportError: x",)
    assert cluster.message == (
        "3 workers in a row failed before they connected; the last, c1-worker-2, ended"
    )
    assert step.actions == ()


def test_fewer_failed_starts_are_counted_and_replaced():
    made, observed = crashed(2)

    step = plan_now(made, observed)

    assert step.change is not None
    assert step.change.cluster.start_failures == 2
    assert step.change.cluster.active
    assert len(step.actions) == 2


def test_failures_of_earlier_rounds_count_too():
    made, observed = crashed(1)

    step = plan_now(made.cluster(start_failures=2), observed)

    assert step.change is not None
    assert step.change.cluster.reason == FailureReason.WORKERS_CRASHING


def test_a_cluster_with_workers_goes_on_with_what_it_has():
    made, observed = crashed(3)
    made = made.worker(CONNECTED).cluster(replicas=4)
    jobs = {**observed.jobs, worker_ref(3): RUNNING}

    step = plan_now(made, replace(observed, jobs=jobs))

    assert step.change is not None
    assert step.change.cluster.active
    assert step.change.cluster.start_failures == 3


def test_a_limit_of_none_never_fails_a_cluster():
    made, observed = crashed(3)

    step = plan_now(made.config(worker_start_failure_limit=0), observed)

    assert step.change is not None
    assert step.change.cluster.active


def test_workers_that_had_connected_are_no_failed_starts():
    made, observed = crashed(3, connected_ms=1)

    step = plan_now(made, observed)

    assert step.change is not None
    assert step.change.cluster.start_failures == 0


def test_restarts_are_held_back_when_they_come_too_fast():
    made = rows().running(1)
    left = {"cause": LeaveCause.RETURNED, "stopped_ms": NOW_MS - 1000}
    made = made.worker(ENDED, 5, connected_ms=1, **left)

    held = plan_now(made, seen())
    later = plan_now(made, seen(), NOW_MS - 1000 + RESTART_WINDOW_MS)

    assert held == Plan(look_again_ms=NOW_MS - 1000 + RESTART_WINDOW_MS)
    assert later.actions == (StartJob(worker_ref(5)),)


def test_workers_that_left_as_they_were_asked_to_hold_nothing_back():
    left = {"cause": LeaveCause.DRAINED, "stopped_ms": NOW_MS}
    made = rows().running(1).worker(ENDED, 50, **left)

    assert plan_now(made, seen()).actions == (StartJob(worker_ref(50)),)


def test_events_name_the_first_failed_workers_and_count_the_rest():
    made = rows(worker_start_failure_limit=100).running(8).worker(STARTED, 8)

    step = plan_now(made, seen(workers=dict.fromkeys(range(8), ended(1))))

    assert step.change is not None
    messages = [e.message for e in step.change.events]
    assert messages[:5] == ["worker ended with exit status 1"] * 5
    assert messages[5:] == ["3 more workers failed"]
    assert [e.worker for e in step.change.events][:2] == ["c1-worker-0", "c1-worker-1"]


def test_absent_and_started_is_not_started_again():
    made = rows().running(1).worker(STARTED)

    step = plan_now(made, seen(workers={0: ABSENT}))

    assert step.actions == ()
