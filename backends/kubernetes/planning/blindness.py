"""A cluster whose namespace the controller may not look at any more. Pure.

What it has there may run on: nothing is judged, made or taken away until it is seen
again. Only what was decided without looking, such as a stop, goes on.
"""

from datetime import datetime, timedelta

from backends.kubernetes.names import Child
from backends.kubernetes.planning.actions import Plan
from backends.kubernetes.planning.belongings import find_anchor
from backends.kubernetes.planning.conditions import ConditionType, Fact
from backends.kubernetes.planning.inputs import (
    Desired,
    Observed,
    Refusal,
    RefusalKind,
)
from backends.kubernetes.planning.reasons import describe_refusal
from backends.kubernetes.planning.status import build_status
from backends.kubernetes.planning.tellings import tell_obstacles
from gateway.domain.cluster import ClusterPhase


def find_blindness(desired: Desired, observed: Observed) -> Refusal | None:
    """Return why nothing is seen of what the cluster has, if it has something."""
    refusal = observed.refusals.get(Child.ANCHOR)
    if refusal is None or refusal.kind is not RefusalKind.FORBIDDEN:
        return None
    if not desired.cluster.status.scheduler_pod:
        return None
    return None if find_anchor(desired, observed) is not None else refusal


def plan_blind(
    desired: Desired,
    refusal: Refusal,
    life_ends: datetime | None,
    now: datetime,
) -> Plan:
    """Plan for a cluster of which nothing is seen: say so, and look again."""
    before = desired.cluster.status
    is_running = before.phase is ClusterPhase.RUNNING
    kind = ConditionType.WORKERS_READY if is_running else ConditionType.SCHEDULER_READY
    text = describe_refusal(refusal)
    facts = {kind: Fact(holds=False, reason=str(refusal.kind), message=text)}
    status = build_status(desired, before.phase, facts, now=now)
    ends = refusal.retry_at if life_ends is None else min(life_ends, refusal.retry_at)
    return Plan(
        status,
        requeue_after=max(timedelta(0), ends - now),
        events=tell_obstacles(before, status, now),
    )
