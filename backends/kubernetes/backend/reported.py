"""A ``DaskCluster`` as the API reports it. Pure."""

from datetime import datetime

from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.observed.worker_set import parse_worker_set
from gateway.domain.cluster import (
    Cluster,
    ClusterPhase,
    Limits,
    PublicStatus,
    Worker,
    WorkerState,
    derive_status,
)
from gateway.domain.credentials import KeyPair
from gateway.domain.names import format_worker_name
from gateway.domain.sync import SyncReport


def find_status(cluster: DaskCluster) -> PublicStatus:
    """Return a cluster's status as the stock client knows it."""
    active = cluster.spec.active and not cluster.is_deleting
    return derive_status(cluster.status.phase, active=active)


def build_cluster(cluster: DaskCluster, *, client: KeyPair | None = None) -> Cluster:
    """Return the cluster as the API reports it.

    Parameters
    ----------
    client
        Given out only while the cluster is RUNNING.
    """
    spec, status = cluster.spec, cluster.status
    reason, message = _find_reason(cluster)
    return Cluster(
        name=cluster.name,
        owner=spec.owner.user,
        status=find_status(cluster),
        version=int(cluster.resource_version),
        start_ms=_to_ms(cluster.created) or 0,
        stop_ms=_to_ms(status.completion_time),
        options=spec.options,
        # The scheduler's pod is ready by its dashboard's port.
        has_dashboard=status.phase is ClusterPhase.RUNNING,
        limits=Limits(spec.limits.max_workers),
        client=client,
        reason=reason,
        message=message,
        log_tail=status.log_tail if status.phase is ClusterPhase.FAILED else (),
    )


def build_workers(
    cluster: DaskCluster, report: SyncReport | None
) -> tuple[Worker, ...]:
    """Return the workers that ought to exist, by ordinal.

    Parameters
    ----------
    report
        What the scheduler has last told this process, if anything.

    Notes
    -----
    When each began is the controller's to know; here it is when the cluster did.
    """
    found = parse_worker_set(cluster.status.workers)
    ordinals = sorted(found.members) if found is not None else ()
    since_ms = _to_ms(cluster.status.start_time or cluster.created) or 0
    return tuple(
        _build_worker(format_worker_name(cluster.name, n), cluster, report, since_ms)
        for n in ordinals
    )


def _build_worker(
    name: str, cluster: DaskCluster, report: SyncReport | None, since_ms: int
) -> Worker:
    state, message = WorkerState.STARTING, ""
    if report is None:
        workers = cluster.status.workers
        if workers.ready and not workers.starting:
            state = WorkerState.RUNNING
    elif name in report.draining:
        state = WorkerState.DRAINING
        if name in report.held:
            message = f"cannot leave yet: {report.held[name][:500]}"
    elif name in report.workers:
        state = WorkerState.RUNNING
    return Worker(name, state, since_ms, message=message)


def _find_reason(cluster: DaskCluster) -> tuple[str, str]:
    status = cluster.status
    if status.phase.is_terminal:
        return status.reason, status.message
    if not cluster.spec.active:
        return cluster.stop_reason, cluster.stop_message
    if status.phase is ClusterPhase.PENDING:
        return "", status.message
    return "", ""


def _to_ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)
