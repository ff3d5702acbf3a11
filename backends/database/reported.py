"""Records as the API reports them. Pure."""

from collections.abc import Mapping

from backends.database.records import (
    LeaveCause,
    Snapshot,
    WorkerRecord,
    WorkerStage,
)
from gateway.domain.cluster import Cluster, Limits, Worker, WorkerState, derive_status
from gateway.domain.credentials import KeyPair
from gateway.domain.names import format_worker_name


def build_cluster(snapshot: Snapshot, *, client: KeyPair | None = None) -> Cluster:
    """Return the cluster as the API reports it.

    Parameters
    ----------
    snapshot
        Its workers and beat are not looked at.
    client
        Given out only while the cluster is RUNNING.
    """
    cluster, spec = snapshot.cluster, snapshot.spec
    status = derive_status(cluster.phase, active=cluster.active)
    return Cluster(
        name=cluster.name,
        owner=cluster.owner,
        status=status,
        version=cluster.version,
        start_ms=cluster.created_ms,
        stop_ms=cluster.stopped_ms,
        options=spec.options,
        has_dashboard=cluster.route is not None and cluster.dashboard_port is not None,
        limits=Limits(spec.config.max_workers),
        client=client,
        reason=cluster.reason,
        message=cluster.message,
        log_tail=cluster.log_tail,
    )


def build_workers(snapshot: Snapshot) -> tuple[Worker, ...]:
    """Return the workers as the API reports them, by ordinal."""
    held = {} if snapshot.beat is None else snapshot.beat.held
    name = snapshot.cluster.name
    return tuple(
        _build_worker(format_worker_name(name, row.ordinal), row, held)
        for row in snapshot.workers
    )


def _build_worker(name: str, row: WorkerRecord, held: Mapping[str, str]) -> Worker:
    message = row.message
    if row.stage is WorkerStage.DRAINING and name in held:
        message = f"cannot leave yet: {held[name]}"
    return Worker(
        name=name,
        state=_worker_state(row),
        start_ms=row.started_ms or row.created_ms,
        stop_ms=row.stopped_ms,
        message=message,
    )


def _worker_state(row: WorkerRecord) -> WorkerState:
    if row.cause is LeaveCause.FAULT:
        return WorkerState.FAILED
    return {
        WorkerStage.WANTED: WorkerState.STARTING,
        WorkerStage.STARTED: WorkerState.STARTING,
        WorkerStage.CONNECTED: WorkerState.RUNNING,
        WorkerStage.DRAINING: WorkerState.DRAINING,
        WorkerStage.STOPPING: WorkerState.DRAINING,
        WorkerStage.ENDED: WorkerState.STOPPED,
    }[row.stage]
