"""What the planner is given: what people want, and what is there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import DaskCluster, Problem
from backends.kubernetes.names import Child
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.services import ServiceView


class RefusalKind(StrEnum):
    """Why the API server did not make an object; spelled as a condition's reason."""

    QUOTA = "QuotaExceeded"
    POLICY = "RefusedByPolicy"  # Pod Security, or another admission rule
    INVALID = "Invalid"  # 422, or larger than etcd takes
    FORBIDDEN = "Forbidden"  # our own rights do not go that far
    NO_NAMESPACE = "NamespaceMissing"  # or going away
    NAME_CONFLICT = "NameConflict"  # another's object has the name
    NAME_BUSY = "NameBusy"  # a former object of ours has it, and is going
    UNAVAILABLE = "Unavailable"  # the API server or the network; will pass

    @property
    def is_final(self) -> bool:
        """True if asking again cannot help: what is asked for has to change."""
        return self in (RefusalKind.POLICY, RefusalKind.INVALID)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A create that failed, as one process remembers it.

    Parameters
    ----------
    kind, text
        ``text`` is the API server's, without its noise.
    retry_at
        Until then it is not asked again.
    """

    kind: RefusalKind
    text: str
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class Desired:
    """What people want.

    Parameters
    ----------
    cluster
        Spec and status as of one ``resourceVersion``. May be stale: then the
        compare-and-set fails.
    lifetimes
        Worked out by `backends.kubernetes.crd.lifetimes.resolve_lifetimes`.
    refusal
        Why no sound pod can be made of the spec, from
        `backends.kubernetes.desired.members.find_refusal`.
    has_route_objects
        True in the ``ingressroute`` mode.
    selector
        Label selector of the worker pods.
    """

    cluster: DaskCluster
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    refusal: Problem | None = None
    has_route_objects: bool = False
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one controller sees of a cluster. May be stale, and lost by a crash.

    Parameters
    ----------
    epoch
        ``leaseTransitions`` of this controller's lease.
    led_since
        When this controller began to lead; ``None`` if that does not matter.
    anchor
        Service of the anchor's name and our labels, if one is shown; whoever's.
    scheduler, workers
        Pods of the cluster by label, whoever owns them, with our own writes
        laid over.
    made
        Children that cannot be watched, or are not, which this process knows
        to exist: credentials, plugin, routes. An empty set makes them again,
        which is harmless.
    absent
        Children that a live read has just not found.
    refusals
        Of the last creates, by child; without those that have passed.
    worker_refusal
        The same for worker pods.
    taken_ordinals
        Workers whose names are another's.
    log_tails
        Last lines by uid of the pod, of those that were asked for; empty if
        there were none to be had.
    asked
        When Events of pods were last read, by uid of the pod.
    route_proved
        Whether the cluster's CA answered at the public port for its name.
    """

    epoch: int
    led_since: datetime | None = None
    anchor: ServiceView | None = None
    scheduler: PodView | None = None
    workers: tuple[PodView, ...] = ()
    made: frozenset[Child] = frozenset()
    absent: frozenset[Child] = frozenset()
    refusals: Mapping[Child, Refusal] = field(default_factory=dict)
    worker_refusal: Refusal | None = None
    taken_ordinals: frozenset[int] = frozenset()
    log_tails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    asked: Mapping[str, datetime] = field(default_factory=dict)
    route_proved: bool = False
