"""Worker pods as an owner asks for them: what each does, and why it does not run. Pure.

Whether a running one is connected, its scheduler knows and not its pod.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.planning.reasons import describe_pod
from gateway.domain.cluster import Worker, WorkerState

_STATES: Final = {
    PodState.PENDING: WorkerState.STARTING,
    PodState.RUNNING: WorkerState.RUNNING,
    PodState.UNKNOWN: WorkerState.RUNNING,
    PodState.TERMINATING: WorkerState.DRAINING,
    PodState.SUCCEEDED: WorkerState.STOPPED,
    PodState.FAILED: WorkerState.FAILED,
}


def build_pod_workers(pods: Iterable[PodView]) -> tuple[Worker, ...]:
    """Return the workers among ``pods``, by ordinal; words where one does not run."""
    workers = [pod for pod in pods if not pod.is_scheduler]
    workers.sort(key=lambda pod: (pod.ordinal or 0, pod.name))
    return tuple(map(_build_worker, workers))


def _build_worker(pod: PodView) -> Worker:
    is_well = pod.state is PodState.RUNNING and pod.cause is None
    return Worker(
        name=pod.name,
        state=_STATES[pod.state],
        start_ms=_to_ms(pod.started or pod.created) or 0,
        stop_ms=_to_ms(pod.finished),
        message="" if is_well else describe_pod(pod),
    )


def _to_ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)
