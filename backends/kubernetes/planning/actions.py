"""A plan: the status to write, and what the controller may do, as plain data."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from backends.kubernetes.crd.values import ClusterStatus
from backends.kubernetes.names import Child
from gateway.domain.cluster import ClusterEvent, EventType, StopReason


@dataclass(frozen=True, slots=True)
class CreateChild:
    """Create ``child``; done as well if it is there, is ours and is not going.

    Else the name is taken: a `RefusalKind.NAME_BUSY` or ``NAME_CONFLICT``. For the
    credentials the master Secret is read, or made if there is none.
    """

    child: Child


@dataclass(frozen=True, slots=True)
class LookUp:
    """Read ``child`` live, because a verdict hangs on its absence.

    What is found goes over the cache. What is not, or belongs to another uid than
    this cluster's or its anchor's, goes into `Observed.absent`.
    """

    child: Child


@dataclass(frozen=True, slots=True)
class KeepLogTail:
    """Read the last log lines of the Dask container of pod ``name``.

    They go into `Observed.log_tails` under ``uid``, also when there are none.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AskWhy:
    """Read the Events of pod ``name``, whose status does not say why it waits.

    The last warning is laid over the pod as `Cause.SETUP`; the time goes into
    `Observed.asked` under ``uid``.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateWorker:
    """Create the pod of worker ``ordinal``. If the name is taken it is done, or waits.

    Creates in a row go out in batches of 1, 2, 4 and so on.
    """

    ordinal: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete pod ``name`` only while it has ``uid`` and ``resource_version``.

    Without a ``resource_version`` any state of that pod will do.
    """

    name: str
    uid: str
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteAnchor:
    """Delete the anchor ``uid``; the garbage collector removes what it owns."""

    uid: str


@dataclass(frozen=True, slots=True)
class StopCluster:
    """Write ``active: false`` with who and why, as a person would."""

    reason: StopReason
    message: str


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Delete the ``DaskCluster`` of this ``uid``."""

    uid: str


Action = (
    CreateChild
    | LookUp
    | KeepLogTail
    | AskWhy
    | CreateWorker
    | DeletePod
    | DeleteAnchor
    | StopCluster
    | DeleteCluster
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of one cluster; see the package for how it is carried out.

    Parameters
    ----------
    status
        As it is to be, the API server's own fields as they were.
    actions
        In this order; deletes of workers before their creates.
    stores_first
        Whether the status is written, or at least compared, before the actions.
    requeue_after
        When time alone changes the plan; ``None`` if it does not.
    events
        To be told once the status is written.
    """

    status: ClusterStatus
    actions: tuple[Action, ...] = ()
    stores_first: bool = False
    requeue_after: timedelta | None = None
    events: tuple[ClusterEvent, ...] = ()


def build_event(
    kind: EventType, reason: str, message: str, now: datetime
) -> ClusterEvent:
    """Return an event of the cluster as a whole."""
    return ClusterEvent(round(now.timestamp() * 1000), kind, str(reason), message)
