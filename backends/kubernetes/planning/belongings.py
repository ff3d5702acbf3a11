"""What of the observed objects is this very cluster's, and what it still lacks.

Labels are names, and names come back; uids do not. What another cluster of the
same name has left behind is never counted, touched or waited for in vain.
"""

from collections.abc import Mapping

from backends.kubernetes.names import Child
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.planning.inputs import Desired, Observed, Refusal


def find_anchor(desired: Desired, observed: Observed) -> ServiceView | None:
    """Return the cluster's anchor, also while it is being deleted."""
    anchor = observed.anchor
    if anchor is None or anchor.cluster_uid != desired.cluster.uid:
        return None
    return anchor


def find_scheduler(desired: Desired, observed: Observed) -> PodView | None:
    """Return the cluster's scheduler pod, in whatever state."""
    anchor, pod = find_anchor(desired, observed), observed.scheduler
    if anchor is None or pod is None or pod.owner_uid != anchor.uid:
        return None
    return pod


def find_workers(desired: Desired, observed: Observed) -> tuple[PodView, ...]:
    """Return the cluster's worker pods, in whatever state."""
    anchor = find_anchor(desired, observed)
    if anchor is None:
        return ()
    return tuple(pod for pod in observed.workers if pod.owner_uid == anchor.uid)


def find_missing(desired: Desired, observed: Observed) -> tuple[Child, ...]:
    """Return the children to create, in their order.

    Routes only once the scheduler answers. Where the scheduler is, what it
    mounts was made before it.
    """
    scheduler = find_scheduler(desired, observed)
    have = set(observed.made)
    if find_anchor(desired, observed) is not None:
        have.add(Child.ANCHOR)
    if scheduler is not None:
        have |= {Child.CREDENTIALS, Child.PLUGIN, Child.SCHEDULER}
    needs_routes = desired.has_route_objects and is_answering(scheduler)
    return tuple(
        child
        for child in Child
        if child not in have and (needs_routes or not child.is_route)
    )


def find_refusals(desired: Desired, observed: Observed) -> Mapping[Child, Refusal]:
    """Return why children that are still missing were not made, in their order.

    What was refused, or timed out, and is there all the same says nothing.
    """
    missing = find_missing(desired, observed)
    known = observed.refusals
    return {child: known[child] for child in missing if child in known}


def is_answering(scheduler: PodView | None) -> bool:
    """Return whether a scheduler runs and passes its probe."""
    return (
        scheduler is not None
        and scheduler.state is PodState.RUNNING
        and scheduler.is_ready
    )


def is_calling(desired: Desired, observed: Observed) -> bool:
    """Return whether all is there, and the scheduler has called the gateway."""
    return (
        is_answering(find_scheduler(desired, observed))
        and desired.cluster.status.first_sync_time is not None
        and not find_missing(desired, observed)
    )
