from dataclasses import replace

import pytest

from backends.database.records import (
    BeatRecord,
    LeaveCause,
    WorkerStage,
    bump_versions,
    parse_ordinals,
)
from backends.database.reported import build_cluster, build_workers
from gateway.domain.cluster import ClusterPhase, PublicStatus, WorkerState
from gateway.domain.credentials import KeyPair
from gateway.domain.sync import Adaptive
from tests.support.database_rows import NOW_MS, SCHEDULER, rows, worker_ref

RUNNING = rows().running(2).build().cluster


def test_every_write_counts_but_only_wishes_make_a_generation():
    seen = bump_versions(RUNNING, replace(RUNNING, start_failures=1))
    wish = bump_versions(RUNNING, replace(RUNNING, replicas=3))
    stop = bump_versions(RUNNING, replace(RUNNING, active=False))

    assert (seen.version, seen.generation) == (2, 1)
    assert (wish.version, wish.generation) == (2, 2)
    assert (stop.version, stop.generation) == (2, 2)


def test_a_route_needs_a_host_that_was_proved_and_a_cluster_that_goes_on():
    assert RUNNING.route is not None
    assert replace(RUNNING, route_host=None).route is None
    assert replace(RUNNING, scheduler_port=None).route is None
    assert replace(RUNNING, active=False).route is None
    assert replace(RUNNING, phase=ClusterPhase.FAILED).route is None


def test_an_adaptive_cluster_may_want_its_maximum():
    adaptive = replace(RUNNING, adaptive_id="a", adaptive_minimum=1, adaptive_maximum=9)

    assert RUNNING.most_workers == 2
    assert RUNNING.adaptive is None
    assert adaptive.most_workers == 9
    assert adaptive.adaptive == Adaptive("a", 1, 9)


def test_jobs_of_ended_workers_are_not_asked_for():
    made = rows().running(2).worker(WorkerStage.ENDED).worker(WorkerStage.STOPPING)

    assert made.build().job_refs() == (SCHEDULER, worker_ref(1))


def test_a_beat_has_an_age_that_is_never_negative():
    beat = BeatRecord(NOW_MS, idle_s=3, no_client_s=4)

    assert beat.seen_at(NOW_MS + 1500).age_s == 1.5
    assert beat.seen_at(NOW_MS - 1500).age_s == 0
    assert beat.seen_at(NOW_MS).idle_s == 3


def test_ordinals_are_those_of_our_own_workers():
    assert parse_ordinals("c1", ["c1-worker-2", "c2-worker-1", "gpu"]) == {2}


def test_what_a_cluster_takes_and_how_long_it_may_live_stand_in_its_configuration():
    spec = rows(worker_cores=2, max_lifetime_s=60).build().spec

    assert spec.shape.take(2).cores == 5
    assert spec.lifetimes.max_lifetime_s == 60


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(rows(), PublicStatus.PENDING, id="pending"),
        pytest.param(rows().running(), PublicStatus.RUNNING, id="running"),
        pytest.param(
            rows().running().cluster(active=False), PublicStatus.STOPPING, id="stopping"
        ),
        pytest.param(rows().ended(), PublicStatus.STOPPED, id="stopped"),
        pytest.param(
            rows().ended(ClusterPhase.FAILED), PublicStatus.FAILED, id="failed"
        ),
    ],
)
def test_the_api_is_told_one_of_five_states(made, want):
    assert build_cluster(made.build()).status is want


def test_a_cluster_is_reported_with_its_reason_limits_and_keys():
    made = rows(max_workers=7).running().cluster(reason="R", message="m")
    made = made.cluster(log_tail=("a", "b"), version=5)
    keys = KeyPair("certificate", "key")

    cluster = build_cluster(made.build(), client=keys)

    assert (cluster.reason, cluster.message) == ("R", "m")
    assert cluster.limits.max_workers == 7
    assert cluster.log_tail == ("a", "b")
    assert cluster.client == keys
    assert cluster.has_dashboard
    assert cluster.version == 5


def test_a_dashboard_is_reported_only_if_there_is_one_and_it_is_routed_to():
    without = rows().running().cluster(dashboard_port=None)
    unproved = rows().cluster(dashboard_port=8787)

    assert not build_cluster(without.build()).has_dashboard
    assert not build_cluster(unproved.build()).has_dashboard


@pytest.mark.parametrize(
    ("stage", "cause", "want"),
    [
        (WorkerStage.WANTED, None, WorkerState.STARTING),
        (WorkerStage.STARTED, None, WorkerState.STARTING),
        (WorkerStage.CONNECTED, None, WorkerState.RUNNING),
        (WorkerStage.DRAINING, None, WorkerState.DRAINING),
        (WorkerStage.STOPPING, LeaveCause.SURPLUS, WorkerState.DRAINING),
        (WorkerStage.STOPPING, LeaveCause.FAULT, WorkerState.FAILED),
        (WorkerStage.ENDED, LeaveCause.DRAINED, WorkerState.STOPPED),
        (WorkerStage.ENDED, LeaveCause.FAULT, WorkerState.FAILED),
    ],
)
def test_a_worker_is_reported_as_what_it_is(stage, cause, want):
    made = rows().running(1).worker(stage, cause=cause)

    (worker,) = build_workers(made.build())

    assert worker.name == "c1-worker-0"
    assert worker.state is want


def test_a_worker_that_cannot_leave_says_why():
    made = rows().running(0).worker(WorkerStage.DRAINING, 2)
    made = made.heard(held={"c1-worker-1": "it alone holds x"})

    free, held = build_workers(made.build())

    assert free.message == ""
    assert held.message == "cannot leave yet: it alone holds x"


def test_a_worker_begins_with_its_job_or_else_with_its_row():
    made = rows().running(2).worker(WorkerStage.WANTED).worker(WorkerStage.STARTED)

    row, job = build_workers(replace(made.build(), beat=None))

    assert row.start_ms == NOW_MS - 11_000
    assert job.start_ms == NOW_MS - 10_000
