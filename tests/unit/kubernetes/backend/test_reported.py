"""A `DaskCluster` as users see it."""

from datetime import UTC, datetime

import pytest

from backends.kubernetes.backend.reported import (
    build_cluster,
    build_workers,
)
from backends.kubernetes.crd.values import (
    ClusterSpec,
    ClusterStatus,
    DaskCluster,
    LimitsSpec,
    Owner,
    WorkersStatus,
)
from gateway.domain.cluster import ClusterPhase, PublicStatus, Worker, WorkerState
from gateway.domain.credentials import KeyPair
from gateway.domain.sync import SyncReport

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)


def cluster(*, active: bool = True, **fields: object) -> DaskCluster:
    status = fields.pop("status", ClusterStatus())
    spec = ClusterSpec(
        owner=Owner("alice"),
        options={"size": 3},
        active=active,
        limits=LimitsSpec(max_workers=8),
    )
    return DaskCluster(
        name="c1",
        namespace="gateway",
        uid="u",
        resource_version="7",
        created=NOW,
        spec=spec,
        status=status,
        **fields,
    )


def test_a_pending_cluster_says_what_it_waits_for_and_has_no_reason_yet() -> None:
    waits = ClusterStatus(reason="WaitingForScheduler", message="0/3 nodes fit")

    found = build_cluster(cluster(status=waits))

    assert (found.name, found.owner, found.version) == ("c1", "alice", 7)
    assert (found.start_ms, found.stop_ms) == (NOW_MS, None)
    assert (found.options, found.limits.max_workers) == ({"size": 3}, 8)
    assert (found.reason, found.message) == ("", "0/3 nodes fit")
    assert not found.has_dashboard


def test_a_running_cluster_has_keys_and_a_dashboard() -> None:
    pair = KeyPair("certificate", "key")
    running = ClusterStatus(phase=ClusterPhase.RUNNING, message="2 of 3 workers")

    found = build_cluster(cluster(status=running), client=pair)

    assert found.client is pair
    assert found.has_dashboard
    assert (found.reason, found.message, found.log_tail) == ("", "", ())


def test_a_stop_is_told_with_its_reason_before_it_is_done() -> None:
    found = build_cluster(
        cluster(active=False, stop_reason="IdleTimeout", stop_message="idle")
    )

    assert found.status is PublicStatus.STOPPING
    assert (found.reason, found.message) == ("IdleTimeout", "idle")


def test_a_failed_cluster_has_its_reason_and_last_lines() -> None:
    failed = ClusterStatus(
        phase=ClusterPhase.FAILED,
        reason="SchedulerEnded",
        message="exit status 3",
        completion_time=NOW,
        log_tail=("no such module",),
    )

    found = build_cluster(cluster(status=failed, active=False, stop_reason="x"))

    assert found.status is PublicStatus.FAILED
    assert (found.reason, found.message) == ("SchedulerEnded", "exit status 3")
    assert found.stop_ms == NOW_MS
    assert found.log_tail == ("no such module",)


def test_an_object_that_somebody_deletes_is_stopping() -> None:
    found = build_cluster(cluster(is_deleting=True))

    assert found.status is PublicStatus.STOPPING


WORKERS = WorkersStatus(next=4, members="1-3", ready=3)
REPORT = SyncReport(
    protocol=1,
    workers=("c1-worker-1",),
    draining=("c1-worker-2", "c1-worker-3"),
    held={"c1-worker-3": "it alone holds data"},
)


def list_workers(workers: WorkersStatus | None, report=None, pods=None):
    status = ClusterStatus(workers=workers or WorkersStatus(), start_time=NOW)
    return build_workers(cluster(status=status), report, pods)


def pod(ordinal: int, state: WorkerState, **fields: object) -> Worker:
    return Worker(f"c1-worker-{ordinal}", state, 5, **fields)


def test_workers_are_as_their_scheduler_tells() -> None:
    found = list_workers(WORKERS, REPORT)

    assert [(w.name, w.state, w.message) for w in found] == [
        ("c1-worker-1", WorkerState.RUNNING, ""),
        ("c1-worker-2", WorkerState.DRAINING, ""),
        (
            "c1-worker-3",
            WorkerState.DRAINING,
            "cannot leave yet: it alone holds data",
        ),
    ]
    assert {w.start_ms for w in found} == {NOW_MS}


@pytest.mark.parametrize(
    ("workers", "want"),
    [
        (WORKERS, WorkerState.RUNNING),
        (WorkersStatus(next=4, members="1", ready=0), WorkerState.STARTING),
        (WorkersStatus(next=4, members="1", ready=1, starting=1), WorkerState.STARTING),
    ],
)
def test_with_nobody_to_ask_all_run_only_if_none_starts(workers, want) -> None:
    assert {w.state for w in list_workers(workers)} == {want}


def test_what_pods_do_is_told_with_their_times_and_words() -> None:
    pods = [
        pod(10, WorkerState.STARTING, message="fits on no node"),
        pod(1, WorkerState.RUNNING),
        pod(0, WorkerState.FAILED, stop_ms=9, message="was killed"),
        Worker("gpu", WorkerState.RUNNING, 5),
    ]

    found = list_workers(WorkersStatus(next=11, members="1-2,10"), None, pods)

    assert [(w.name, w.state, w.message) for w in found] == [
        ("c1-worker-0", WorkerState.FAILED, "was killed"),
        ("c1-worker-1", WorkerState.RUNNING, ""),
        ("c1-worker-2", WorkerState.STARTING, ""),
        ("c1-worker-10", WorkerState.STARTING, "fits on no node"),
    ]
    assert [w.start_ms for w in found] == [5, 5, NOW_MS, 5]


def test_a_pod_that_runs_is_a_worker_once_its_scheduler_has_it() -> None:
    pods = [
        pod(1, WorkerState.RUNNING),
        pod(4, WorkerState.RUNNING),
        pod(5, WorkerState.STARTING),
        pod(6, WorkerState.STOPPED, stop_ms=9),
    ]

    found = list_workers(WorkersStatus(next=7, members="1,4-5"), REPORT, pods)

    assert [(w.state, w.message) for w in found] == [
        (WorkerState.RUNNING, ""),
        (WorkerState.STARTING, "runs, but is not connected to the scheduler"),
        (WorkerState.STARTING, ""),
        (WorkerState.STOPPED, ""),
    ]


def test_without_a_worker_set_there_are_no_workers() -> None:
    assert list_workers(None) == ()
