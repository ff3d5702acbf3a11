"""How many workers people want: the last wish counts, and is written.

Whoever asks a hundred times in a second, as a slider in a browser does, is
answered a hundred times and costs ten writes: of the wishes that come while one is
written, and for a moment after, only the last is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from backends.kubernetes.backend.requests import Change
from backends.kubernetes.backend.sharing import Holdings
from backends.kubernetes.crd.values import DaskCluster
from gateway.aio.limits import ExpiringMap

T = TypeVar("T")

# Between two writes for one cluster.
GAP_S: Final = 0.1
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Wish(Generic[T]):
    """A wanted number of workers, or bounds.

    Parameters
    ----------
    decide
        Returns the writes for a cluster, given what its owner's other clusters
        hold, and what was accepted.
    find_most
        Returns how many workers the accepted may come to.
    """

    decide: Callable[[DaskCluster, Holdings], tuple[tuple[Change, ...], T]]
    find_most: Callable[[T], int]


@dataclass(slots=True)
class _Line:
    """Those who wait for one cluster; each has a number, the last the highest."""

    newest: Wish[Any]
    last: int = 0
    written: int = 0
    waiting: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class WishQueue:
    """Writes wishes, for each cluster one at a time.

    Parameters
    ----------
    apply
        Writes a wish and returns what was accepted.
    find
        Returns a cluster as far as it is known.
    """

    def __init__(
        self,
        apply: Callable[[str, Wish[Any]], Awaitable[Any]],
        find: Callable[[str], Awaitable[DaskCluster]],
    ) -> None:
        self._apply = apply
        self._find = find
        self._lines: dict[str, _Line] = {}
        self._not_before: ExpiringMap[str, float] = ExpiringMap(_MOST, GAP_S)

    async def submit(self, name: str, wish: Wish[T]) -> T:
        """Return what was accepted, once it or a later wish is durable.

        Raises
        ------
        InvalidRequest, ClusterNotFound, ClusterNotRunning, Unavailable
            As the wish is refused.
        """
        # What is wrong with it is told before it can stand for others.
        _, outcome = wish.decide(await self._find(name), ())
        line = self._lines.setdefault(name, _Line(wish))
        line.newest = wish
        line.last = number = line.last + 1
        line.waiting += 1
        try:
            async with line.lock:
                if line.written >= number:
                    return outcome
                return await self._write(name, line, wish, outcome)
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[name]

    async def _write(self, name: str, line: _Line, wish: Wish[T], outcome: T) -> T:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep((self._not_before.get(name) or now) - now)
        newest, number = line.newest, line.last
        accepted = await self._apply(name, newest)
        end = asyncio.get_running_loop().time() + GAP_S
        self._not_before.put(name, end)
        line.written = number
        return accepted if newest is wish else outcome
