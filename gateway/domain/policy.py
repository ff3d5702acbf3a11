"""Caps per user and per group, and whether a request fits under them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from gateway.domain.errors import LimitExceeded
from gateway.domain.scaling import Room, to_thousandths
from gateway.domain.user import User


@dataclass(frozen=True, slots=True)
class Usage:
    """What clusters hold, or may grow to: an adaptive one counts its maximum.

    Parameters
    ----------
    clusters, workers
        Numbers of active clusters and of their workers.
    cores, memory_bytes
        Sums over schedulers and workers.
    """

    clusters: int = 0
    workers: int = 0
    cores: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )


@dataclass(frozen=True, slots=True)
class Caps:
    """Highest `Usage`; ``None`` is no cap."""

    clusters: int | None = None
    workers: int | None = None
    cores: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Whose usage is summed: ``user:alice`` or ``group:lab``, with its caps."""

    key: str
    caps: Caps


@dataclass(frozen=True, slots=True)
class Shape:
    """What a cluster takes: its scheduler once, a worker each."""

    scheduler_cores: float
    scheduler_memory_bytes: int
    worker_cores: float
    worker_memory_bytes: int

    def take(self, workers: int) -> Usage:
        """Return the usage of one cluster with ``workers`` workers."""
        return Usage(
            1,
            workers,
            self.scheduler_cores + workers * self.worker_cores,
            self.scheduler_memory_bytes + workers * self.worker_memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Caps that an operator set.

    Parameters
    ----------
    default
        For each user who is not named in ``users``.
    users
        By user name; replaces the default.
    groups
        By group name; the members' clusters are summed. All groups of a user
        must have room.
    """

    default: Caps = Caps()
    users: Mapping[str, Caps] = field(default_factory=dict)
    groups: Mapping[str, Caps] = field(default_factory=dict)

    def shares(self, user: User) -> tuple[Share, ...]:
        """Return all shares that a cluster of ``user`` counts in, sorted by key.

        Shares without any cap are left out. The order is the order in which
        locks are to be taken.
        """
        found = [Share(f"user:{user.name}", self.users.get(user.name, self.default))]
        found += [
            Share(f"group:{group}", self.groups[group])
            for group in user.groups
            if group in self.groups
        ]
        return tuple(
            sorted((s for s in found if s.caps != Caps()), key=lambda s: s.key)
        )


def check_create(shape: Shape, shares: Iterable[tuple[Share, Usage]]) -> None:
    """Refuse one more cluster that does not fit.

    Parameters
    ----------
    shape
        Of the new cluster; it starts with no worker.
    shares
        Each share with what its active clusters hold now.

    Raises
    ------
    LimitExceeded
        Naming the share, the cap and what is held.
    """
    for share, held in shares:
        total, caps = held + shape.take(0), share.caps
        _check(share, "clusters", total.clusters, held.clusters, caps.clusters)
        _check(share, "cores", total.cores, held.cores, caps.cores)
        _check(share, "GiB", total.memory_bytes, held.memory_bytes, caps.memory_bytes)


def room_for_workers(shape: Shape, shares: Iterable[tuple[Share, Usage]]) -> Room:
    """Return how many workers a cluster may have, and which share says so.

    Parameters
    ----------
    shape
        Of the cluster.
    shares
        Each share with what its *other* active clusters hold now.

    Returns
    -------
    tuple
        The number, ``None`` if there is no cap, and the share's name for people.
    """
    rooms = [
        (room, share.key)
        for share, held in shares
        for room in _rooms(shape, held + shape.take(0), share.caps)
    ]
    if not rooms:
        return None, ""
    room, key = min(rooms)
    return max(0, room), format_share(key)


def format_share(key: str) -> str:
    """Return ``user 'alice'`` or ``group 'lab'`` for a share's key."""
    kind, _, name = key.partition(":")
    return f"{kind} {name!r}"


def _check(
    share: Share, unit: str, total: float, held: float, cap: float | None
) -> None:
    if cap is None or to_thousandths(total) <= to_thousandths(cap):
        return
    scale = 2**30 if unit == "GiB" else 1
    raise LimitExceeded(
        f"{format_share(share.key)} may use at most {cap / scale:g} {unit}, holds "
        f"{held / scale:g} and asks for {(total - held) / scale:g} more; "
        "stop a cluster or ask for less"
    )


def _rooms(shape: Shape, alone: Usage, caps: Caps) -> Iterator[int]:
    if caps.workers is not None:
        yield caps.workers - alone.workers
    for cap, taken, worker in (
        (caps.cores, alone.cores, shape.worker_cores),
        (caps.memory_bytes, alone.memory_bytes, shape.worker_memory_bytes),
    ):
        if cap is not None and (one := to_thousandths(worker)) > 0:
            yield (to_thousandths(cap) - to_thousandths(taken)) // one
