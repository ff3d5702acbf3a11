"""How a cluster ends, and what follows: teardown, verdict, retention. Pure."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from backends.kubernetes.planning.actions import (
    Action,
    DeleteAnchor,
    DeleteCluster,
    Plan,
    build_event,
)
from backends.kubernetes.planning.belongings import find_anchor
from backends.kubernetes.planning.conditions import MAX_MESSAGE
from backends.kubernetes.planning.failures import Failure
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.status import build_status, tell_end
from gateway.domain.cluster import ClusterPhase, EventType, StopReason

# The schema takes more; who reads a status wants the end.
_MAX_LINES: Final = 100
_MAX_LINE: Final = 1000


def plan_teardown(desired: Desired, observed: Observed) -> tuple[Action, ...]:
    """Return what removes all that the cluster has in its target namespace."""
    anchor = find_anchor(desired, observed)
    if anchor is None or anchor.is_terminating:
        return ()
    return (DeleteAnchor(anchor.uid),)


def plan_ended(desired: Desired, observed: Observed, now: datetime) -> Plan:
    """Plan for a cluster in its last phase: leave nothing over, and in time nothing."""
    status = desired.cluster.status
    if status.completion_time is None:
        status = msgspec.structs.replace(status, completion_time=now)
    retention = timedelta(seconds=desired.lifetimes.retention_seconds)
    # An end in the future comes of a clock that jumped back.
    left = min(retention, (status.completion_time or now) + retention - now)
    actions = plan_teardown(desired, observed)
    if left <= timedelta(0):
        return Plan(status, (*actions, DeleteCluster(desired.cluster.uid)))
    return Plan(status, actions, requeue_after=left)


def plan_stop(desired: Desired, observed: Observed, now: datetime) -> Plan:
    """Plan for a cluster that was asked to stop."""
    cluster = desired.cluster
    reason = _read_reason(cluster.stop_reason)
    message = cluster.stop_message[:MAX_MESSAGE]
    status = build_status(desired, ClusterPhase.STOPPED, tell_end(reason), now=now)
    status = msgspec.structs.replace(
        status,
        reason=str(reason),
        message=message,
        stop_reason=str(reason),
        stop_message=message,
        completion_time=now,
    )
    return Plan(
        status,
        plan_teardown(desired, observed),
        events=(build_event(EventType.NORMAL, "Stopped", status.message, now),),
    )


def plan_failure(
    desired: Desired, observed: Observed, failure: Failure, now: datetime
) -> Plan:
    """Plan for a cluster that has failed: the verdict first, then the teardown.

    The teardown destroys the evidence, and may be cut short.
    """
    facts = tell_end(failure.reason, failure.message)
    status = build_status(desired, ClusterPhase.FAILED, facts, now=now)
    status = msgspec.structs.replace(
        status,
        reason=str(failure.reason),
        message=failure.message[:MAX_MESSAGE],
        log_tail=tuple(line[:_MAX_LINE] for line in failure.log_tail[-_MAX_LINES:]),
        completion_time=now,
    )
    return Plan(
        status,
        plan_teardown(desired, observed),
        stores_first=True,
        events=(build_event(EventType.WARNING, failure.reason, failure.message, now),),
    )


def _read_reason(text: str) -> StopReason:
    # Anybody can write the annotation; a status that the schema refuses would keep
    # the cluster from ever ending.
    try:
        return StopReason(text)
    except ValueError:
        return StopReason.USER
