"""A Dask cluster as the core sees it, whatever backend keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from typing_extensions import override

from gateway.domain.credentials import KeyPair


class ClusterPhase(StrEnum):
    """Phase of a Dask cluster, spelled as in ``DaskCluster.status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        """True if the cluster will never run again."""
        return self in (ClusterPhase.STOPPED, ClusterPhase.FAILED)


class PublicStatus(StrEnum):
    """Status of a cluster in the REST API; the stock client knows just these."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"

    @classmethod
    def from_name(cls, name: str) -> "PublicStatus":
        """Return the status that ``name`` spells, in any case (peer's name)."""
        try:
            return cls(name.upper())
        except ValueError:
            raise ValueError(f"{name!r} is not a valid ClusterStatus") from None

    @property
    def is_active(self) -> bool:
        """True for what a list shows without a ``status`` argument."""
        return self in (PublicStatus.PENDING, PublicStatus.RUNNING)

    @property
    def is_terminal(self) -> bool:
        """True if the cluster will never run again."""
        return self in (PublicStatus.STOPPED, PublicStatus.FAILED)

    # Sites compare statuses, which are numbers in the peer, by their order.
    @override
    def __lt__(self, other: str) -> bool:
        return _order(self) < _order(other)

    @override
    def __le__(self, other: str) -> bool:
        return _order(self) <= _order(other)

    @override
    def __gt__(self, other: str) -> bool:
        return _order(self) > _order(other)

    @override
    def __ge__(self, other: str) -> bool:
        return _order(self) >= _order(other)


def _order(status: str) -> int:
    return list(PublicStatus).index(PublicStatus(status))


def derive_status(phase: ClusterPhase, *, active: bool) -> PublicStatus:
    """Return the public status of a cluster in ``phase``.

    Parameters
    ----------
    phase
        What the cluster is.
    active
        What is wanted of it: false once a stop was accepted.

    Examples
    --------
    >>> derive_status(ClusterPhase.RUNNING, active=False)
    <PublicStatus.STOPPING: 'STOPPING'>
    """
    if phase.is_terminal or active:
        return PublicStatus(phase.upper())
    return PublicStatus.STOPPING


class StopReason(StrEnum):
    """Why a cluster was asked to stop."""

    USER = "StoppedByUser"
    ADMIN = "StoppedByAdmin"
    SCHEDULER = "StoppedByScheduler"
    IDLE = "IdleTimeout"
    NO_CLIENT = "NoClientTimeout"
    LIFETIME = "MaxLifetime"


class FailureReason(StrEnum):
    """Why a cluster failed, spelled as in its condition."""

    SPEC_REFUSED = "SpecRefused"
    START_FAILED = "StartFailed"
    START_DEADLINE_PASSED = "StartDeadlinePassed"
    SCHEDULER_ENDED = "SchedulerEnded"
    SCHEDULER_LOST = "SchedulerLost"
    WORKERS_CRASHING = "WorkersCrashing"
    ROUTE_FAILED = "RouteFailed"
    ANCHOR_DELETED = "AnchorDeleted"


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one cluster; ``None`` is none.

    Parameters
    ----------
    max_workers
        Already worked out from ``cluster_max_workers``, ``_cores`` and
        ``_memory`` less the scheduler's share.
    """

    max_workers: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster as the API reports it.

    Parameters
    ----------
    name
        Public name, see `gateway.domain.names`.
    owner
        Name of the user who may use it.
    status
        As the stock client knows it.
    version
        Grows with every change of this record; equal versions, equal record.
    start_ms, stop_ms
        Milliseconds since the epoch, UTC. ``stop_ms`` once it has ended.
    options
        The user's options as stored, keyed by field, JSON values.
    has_dashboard
        Whether a dashboard can be routed to.
    limits
        Caps that scale and adapt are clamped to.
    client
        What a client needs to connect, while `status` is RUNNING.
    reason
        `StopReason` or `FailureReason` once there is one, else "".
    message
        The same for people: what failed, on which object, what to do.
    log_tail
        Last lines of the process that ended, for a failed cluster.
    """

    name: str
    owner: str
    status: PublicStatus
    version: int
    start_ms: int
    stop_ms: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    has_dashboard: bool = False
    limits: Limits = field(default_factory=Limits)
    client: KeyPair | None = None
    reason: str = ""
    message: str = ""
    log_tail: tuple[str, ...] = ()

    @property
    def username(self) -> str:
        """The owner, under the peer's name, for sites' own backends."""
        return self.owner


class EventType(StrEnum):
    """Kubernetes' two types of event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened to a cluster and that its owner may ask about.

    Parameters
    ----------
    time_ms
        Milliseconds since the epoch, UTC.
    type, reason, message
        As in a Kubernetes Event: ``reason`` is one CamelCase word.
    component
        ``scheduler``, ``worker`` or ``cluster``.
    worker
        Name of the worker that it is about, if it is about one.
    """

    time_ms: int
    type: EventType
    reason: str
    message: str
    component: str = "cluster"
    worker: str | None = None


class WorkerState(StrEnum):
    """Where a worker is on its way."""

    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"
    STOPPED = "Stopped"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a cluster.

    Parameters
    ----------
    name
        In Dask, and of its process, job or pod.
    state
        ``RUNNING`` once the scheduler has seen it.
    start_ms, stop_ms
        Milliseconds since the epoch, UTC.
    message
        Why it ended or cannot start; "" while there is nothing to say.
    """

    name: str
    state: WorkerState
    start_ms: int
    stop_ms: int | None = None
    message: str = ""
