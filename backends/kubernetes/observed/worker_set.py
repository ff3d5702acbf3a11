"""The durable worker set, as ``DaskCluster.status.workers`` holds it.

Values and their text only; which ordinals join and leave is decided in
``planning.workers``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec

from backends.kubernetes.crd.values import WorkersStatus

# Members that were not asked for all at once may still be there: twice the most.
_MAX_MEMBERS: Final = 200_000
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?\Z")


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """Ordinals of the workers that ought to exist, and the next free one.

    An ordinal below ``next`` that is no member has left, and never comes back.

    Parameters
    ----------
    next
        Lowest ordinal that was never given out.
    members
        Each ``>= 0`` and ``< next``.
    epoch
        ``leaseTransitions`` of the leader that wrote it.
    """

    next: int = 0
    members: frozenset[int] = frozenset()
    epoch: int = 0

    def __post_init__(self) -> None:
        """Refuse members that were never given out."""
        if any(not 0 <= n < self.next for n in self.members):
            raise ValueError(
                f"members must be >= 0 and < {self.next}, got {sorted(self.members)}"
            )


def parse_worker_set(status: WorkersStatus) -> WorkerSet | None:
    """Return the set in a ``DaskCluster``'s status.

    Returns
    -------
    WorkerSet or None
        ``None`` if there is none, or if someone else wrote there what cannot
        be read: then it is lost, and rebuilt from the pods.
    """
    if status.members is None:
        return None
    try:
        members = parse_ordinals(status.members)
        return WorkerSet(status.next, members, status.epoch)
    except ValueError:
        return None


def format_worker_set(worker_set: WorkerSet, status: WorkersStatus) -> WorkersStatus:
    """Return ``status`` with ``worker_set`` in it."""
    return msgspec.structs.replace(
        status,
        next=worker_set.next,
        members=format_ordinals(worker_set.members),
        epoch=worker_set.epoch,
    )


def parse_ordinals(text: str) -> frozenset[int]:
    """Return the ordinals that ``text`` names.

    Raises
    ------
    ValueError
        If ``text`` is not a list of ranges, or names more than any cluster has.

    Examples
    --------
    >>> sorted(parse_ordinals("0-2,9"))
    [0, 1, 2, 9]
    """
    ranges = [_parse_range(part) for part in text.split(",")] if text else []
    if sum(map(len, ranges)) > _MAX_MEMBERS:
        raise ValueError(f"ordinals must be at most {_MAX_MEMBERS}, got {text!r:.200}")
    return frozenset(n for numbers in ranges for n in numbers)


def format_ordinals(ordinals: Iterable[int]) -> str:
    """Return ``ordinals`` as the shortest ascending list of ranges.

    Examples
    --------
    >>> format_ordinals({9, 0, 1, 2})
    '0-2,9'
    """
    # Along a run of consecutive numbers, number minus position stays the same.
    runs = groupby(enumerate(sorted(ordinals)), key=lambda pair: pair[1] - pair[0])
    return ",".join(_format_range([n for _, n in run]) for _, run in runs)


def _parse_range(text: str) -> range:
    match = _RANGE.match(text)
    if match is None:
        raise ValueError(f"ordinals must look like 0-7,9, got {text!r:.200}")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def _format_range(run: list[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
