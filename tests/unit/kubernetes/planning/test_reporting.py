"""Worker pods as their cluster's owner sees them."""

from datetime import UTC, datetime

import pytest

from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.reporting import build_pod_workers
from gateway.domain.cluster import WorkerState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)


def pod(name: str, **fields: object) -> PodView:
    return PodView(
        namespace="n", name=name, uid="u", resource_version="1", cluster="c1", **fields
    )


def test_workers_are_by_ordinal_and_the_scheduler_is_none() -> None:
    pods = [pod("w10", ordinal=10), pod("s", is_scheduler=True), pod("w2", ordinal=2)]

    assert [worker.name for worker in build_pod_workers(pods)] == ["w2", "w10"]


@pytest.mark.parametrize(
    ("state", "want"),
    [
        (PodState.PENDING, WorkerState.STARTING),
        (PodState.RUNNING, WorkerState.RUNNING),
        (PodState.SUCCEEDED, WorkerState.STOPPED),
        (PodState.FAILED, WorkerState.FAILED),
        (PodState.TERMINATING, WorkerState.DRAINING),
        (PodState.UNKNOWN, WorkerState.RUNNING),
    ],
)
def test_each_state_is_told_and_with_words_unless_all_is_well(state, want) -> None:
    (worker,) = build_pod_workers([pod("w", state=state, created=NOW)])

    assert (worker.state, worker.start_ms, worker.stop_ms) == (want, NOW_MS, None)
    assert bool(worker.message) == (state is not PodState.RUNNING)


def test_why_one_has_failed_is_told_with_its_times() -> None:
    killed = pod(
        "w", state=PodState.FAILED, cause=Cause.OOM_KILLED, started=NOW, finished=NOW
    )

    (worker,) = build_pod_workers([killed])

    assert "out of memory" in worker.message
    assert (worker.start_ms, worker.stop_ms) == (NOW_MS, NOW_MS)
