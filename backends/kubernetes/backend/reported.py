"""A ``DaskCluster`` as the API reports it. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.observed.worker_set import parse_worker_set
from gateway.domain.cluster import (
    Cluster,
    ClusterPhase,
    Limits,
    Worker,
    WorkerState,
    derive_status,
)
from gateway.domain.credentials import KeyPair
from gateway.domain.names import format_worker_name, parse_worker_ordinal
from gateway.domain.sync import SyncReport

# What a scheduler reports is a user's to choose.
_MAX_TEXT: Final = 500


def build_cluster(cluster: DaskCluster, *, client: KeyPair | None = None) -> Cluster:
    """Return the cluster as the API reports it.

    Parameters
    ----------
    client
        Given out only while the cluster is RUNNING.
    """
    spec, status = cluster.spec, cluster.status
    reason, message = _find_reason(cluster)
    active = spec.active and not cluster.is_deleting
    return Cluster(
        name=cluster.name,
        owner=spec.owner.user,
        status=derive_status(status.phase, active=active),
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
    cluster: DaskCluster,
    report: SyncReport | None,
    pods: Sequence[Worker] | None,
) -> tuple[Worker, ...]:
    """Return the workers that ought to exist, and ended ones of late, by ordinal.

    Parameters
    ----------
    report
        What the scheduler has last told this process, if anything.
    pods
        What the controller tells of those that have pods; ``None`` if it is away.
        Then when each began is not known, and is said to be when the cluster did.
    """
    found = parse_worker_set(cluster.status.workers)
    known = {worker.name: worker for worker in pods or ()}
    since_ms = _to_ms(cluster.status.start_time or cluster.created) or 0
    for ordinal in found.members if found is not None else ():
        name = format_worker_name(cluster.name, ordinal)
        if name not in known:
            state = WorkerState.STARTING if pods is not None else _guess(cluster)
            known[name] = Worker(name, state, since_ms)
    named = ((parse_worker_ordinal(cluster.name, n), n) for n in known)
    ours = sorted((ordinal, n) for ordinal, n in named if ordinal is not None)
    return tuple(_refine(known[name], report) for _, name in ours)


def _guess(cluster: DaskCluster) -> WorkerState:
    workers = cluster.status.workers
    is_whole = workers.ready > 0 and workers.starting == 0
    return WorkerState.RUNNING if is_whole else WorkerState.STARTING


def _refine(worker: Worker, report: SyncReport | None) -> Worker:
    """Return a worker with what its scheduler says: whether it is connected."""
    if report is None or worker.stop_ms is not None:
        return worker
    name = worker.name
    if name in report.draining:
        message = worker.message
        if name in report.held:
            message = f"cannot leave yet: {report.held[name][:_MAX_TEXT]}"
        return replace(worker, state=WorkerState.DRAINING, message=message)
    if name in report.workers:
        return replace(worker, state=WorkerState.RUNNING)
    if worker.state is WorkerState.RUNNING:
        message = worker.message or "runs, but is not connected to the scheduler"
        return replace(worker, state=WorkerState.STARTING, message=message)
    return worker


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
