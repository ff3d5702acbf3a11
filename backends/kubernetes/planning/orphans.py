"""An anchor whose ``DaskCluster`` may be gone: what to do about it. Pure.

Nobody but the controller removes it, since owners cannot be in another namespace.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.planning.actions import DeleteAnchor

# An API server that restarts may for a moment not know what it stores.
CONFIRM_AFTER: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class LookUpCluster:
    """Read the ``DaskCluster`` of this name live.

    It is gone only if the answer is a Status 404 that names it in
    ``details.name``, or an object with another uid than the anchor's annotation:
    a missing CRD answers 404 too, in plain text.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Sightings:
    """When live reads have found the cluster gone, with none between that had it."""

    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The next step for an anchor without a cluster."""

    action: LookUpCluster | DeleteAnchor | None = None
    requeue_after: timedelta | None = None


def plan_orphan(anchor: ServiceView, sightings: Sightings, now: datetime) -> OrphanPlan:
    """Plan the next step for an anchor whose cluster the cache does not show.

    Also for an anchor that was made for a former cluster of the same name: its
    annotation has another uid.

    Parameters
    ----------
    sightings
        What this process has found so far.

    Examples
    --------
    >>> anchor = ServiceView(
    ...     namespace="team", name="dask-c", uid="u", resource_version="1", cluster="c"
    ... )
    >>> now = datetime(2026, 1, 1)
    >>> plan_orphan(anchor, Sightings(), now).action
    LookUpCluster(name='c')
    >>> plan_orphan(anchor, Sightings(now - CONFIRM_AFTER, now), now).action
    DeleteAnchor(uid='u')
    """
    if anchor.is_terminating:
        return OrphanPlan()
    if sightings.first is None or sightings.last is None:
        return OrphanPlan(LookUpCluster(anchor.cluster), CONFIRM_AFTER)
    if sightings.last - sightings.first >= CONFIRM_AFTER:
        return OrphanPlan(DeleteAnchor(anchor.uid))
    left = sightings.first + CONFIRM_AFTER - now
    if left <= timedelta(0):
        return OrphanPlan(LookUpCluster(anchor.cluster), CONFIRM_AFTER)
    return OrphanPlan(requeue_after=left)
