"""What a `DaskCluster` alone tells of itself when nobody else can. Pure."""

from collections.abc import Iterable

from backends.kubernetes.crd.values import Condition, DaskCluster
from gateway.domain.cluster import (
    ClusterEvent,
    ClusterPhase,
    EventType,
    FailureReason,
)
from gateway.ports import LogQuery


def build_kept_events(cluster: DaskCluster) -> tuple[ClusterEvent, ...]:
    """Return what status and conditions tell, as events, oldest first.

    Events themselves live for an hour; the status lives as long as the cluster.
    """
    told = [_tell_condition(c) for c in cluster.status.conditions if _is_news(c)]
    if cluster.status.phase.is_terminal:
        # All conditions repeat the reason of the end.
        reason = cluster.status.reason
        told = [event for event in told if event.reason != reason]
        told.append(_tell_end(cluster))
    return tuple(sorted(told, key=lambda event: event.time_ms))


def merge_events(
    told: Iterable[ClusterEvent], kept: Iterable[ClusterEvent]
) -> tuple[ClusterEvent, ...]:
    """Return ``told`` and what of ``kept`` it lacks, oldest first."""
    events = list(told)
    reasons = {event.reason for event in events}
    events += [event for event in kept if event.reason not in reasons]
    return tuple(sorted(events, key=lambda event: event.time_ms))


def list_kept_lines(cluster: DaskCluster, query: LogQuery) -> tuple[str, ...]:
    """Return the last log lines that the status keeps, if they are what is asked for.

    They are of the process whose end ended the cluster: a worker's if workers
    crashed, else the scheduler's.
    """
    of_worker = cluster.status.reason == FailureReason.WORKERS_CRASHING
    component = "worker" if of_worker else "scheduler"
    if query.component != component or query.worker is not None or query.tail <= 0:
        return ()
    return cluster.status.log_tail[-query.tail :]


def _is_news(condition: Condition) -> bool:
    return condition.status != "True" and bool(condition.message)


def _tell_condition(condition: Condition) -> ClusterEvent:
    at = condition.last_transition_time
    return ClusterEvent(
        0 if at is None else round(at.timestamp() * 1000),
        EventType.WARNING,
        condition.reason,
        condition.message,
    )


def _tell_end(cluster: DaskCluster) -> ClusterEvent:
    status = cluster.status
    at = status.completion_time
    has_failed = status.phase is ClusterPhase.FAILED
    return ClusterEvent(
        0 if at is None else round(at.timestamp() * 1000),
        EventType.WARNING if has_failed else EventType.NORMAL,
        status.reason or status.stop_reason or str(status.phase),
        status.message or status.stop_message,
    )
