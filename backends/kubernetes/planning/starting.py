"""A cluster on its way to Running: what to create, and what it waits for. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backends.kubernetes.crd.values import ClusterStatus, DaskCluster
from backends.kubernetes.names import Child, format_scheduler_name
from backends.kubernetes.planning.actions import Action, CreateChild, Plan, build_event
from backends.kubernetes.planning.belongings import (
    find_anchor,
    find_missing,
    find_scheduler,
    is_calling,
)
from backends.kubernetes.planning.failures import find_start_deadline
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.silences import plan_question
from backends.kubernetes.planning.status import build_status, tell_start
from backends.kubernetes.planning.tellings import tell_obstacles
from gateway.domain.cluster import ClusterEvent, ClusterPhase, EventType

# A route is asked for again so often until it is proved.
PROVE_AGAIN: Final = timedelta(milliseconds=250)
# A former object of our name is on its way out: the collector takes seconds.
_NAME_BUSY: Final = timedelta(seconds=1)


def plan_start(desired: Desired, observed: Observed, now: datetime) -> Plan:
    """Plan for a cluster that is not Running yet and may still become so."""
    missing = find_missing(desired, observed)
    creates, again = plan_creates(desired, observed, missing, now)
    due = find_start_deadline(desired, observed, now) - now
    if not missing and is_calling(desired, observed):
        again = PROVE_AGAIN
    scheduler = find_scheduler(desired, observed)
    questions, ask_at = plan_question(
        () if scheduler is None else (scheduler,), observed.asked, now
    )
    facts = tell_start(desired, observed)
    status = build_status(desired, ClusterPhase.PENDING, facts, now=now)
    if CreateChild(Child.SCHEDULER) in creates:
        # Written once all was made: from then on its absence means a loss.
        status = with_scheduler(status, desired.cluster)
    if scheduler is not None:
        status = with_scheduler(status, desired.cluster)
    events: tuple[ClusterEvent, ...] = ()
    if desired.cluster.status.start_time is None:
        text = f"accepted; pods go to namespace {desired.cluster.spec.target_namespace}"
        events = (build_event(EventType.NORMAL, "Pending", text, now),)
    events += tell_obstacles(desired.cluster.status, status, now)
    asks = None if ask_at is None else ask_at - now
    return Plan(
        status,
        (*creates, *questions),
        requeue_after=min(d for d in (due, again, asks) if d is not None),
        events=events,
    )


def plan_creates(
    desired: Desired, observed: Observed, missing: Sequence[Child], now: datetime
) -> tuple[tuple[Action, ...], timedelta | None]:
    """Return what to create now, and in how long to try what is held back.

    Parameters
    ----------
    missing
        In their order: what comes after one that is held back is so, too.
    """
    anchor = observed.anchor
    if missing and anchor is not None:
        is_ours = find_anchor(desired, observed) is not None
        if anchor.is_terminating or not is_ours:
            return (), _NAME_BUSY
    for index, child in enumerate(missing):
        refusal = observed.refusals.get(child)
        if refusal is not None and refusal.retry_at > now:
            creates = tuple(CreateChild(c) for c in missing[:index])
            return creates, refusal.retry_at - now
    return tuple(CreateChild(child) for child in missing), None


def with_scheduler(status: ClusterStatus, cluster: DaskCluster) -> ClusterStatus:
    """Return ``status`` with the scheduler's pod: from now on its absence is a loss."""
    name = format_scheduler_name(cluster.name)
    return msgspec.structs.replace(status, scheduler_pod=name)
