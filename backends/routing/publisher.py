"""Pacing of table writes: at once when idle, else coalesced, the last one wins.

Knows nothing of tables; what is written, and where, is the caller's.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Traefik rebuilds all routers at every change; at 1 ms per cluster it stays
# below one core's half at any size.
_MIN_INTERVAL_S: Final = 0.1
_INTERVAL_PER_ENTRY_S: Final = 0.001


def interval_s(entries: int) -> float:
    """Return the least time between two writes of a table of ``entries``.

    Examples
    --------
    >>> interval_s(0), interval_s(1000)
    (0.1, 1.0)
    """
    return max(_MIN_INTERVAL_S, _INTERVAL_PER_ENTRY_S * entries)


class Publisher(Generic[T]):
    """Writes the newest of the values it is given, in a thread.

    Parameters
    ----------
    write
        Blocking. Called with one value at a time, never with an older one
        after a newer one.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        self._write = write
        self._turn = asyncio.Lock()
        self._given = 0
        self._written = 0
        self._newest: tuple[int, T] | None = None
        self._not_before = 0.0
        # A cancelled caller leaves its thread behind, still writing.
        self._in_thread = threading.Lock()
        self._started = 0

    async def publish(self, value: T, *, interval_s: float) -> None:
        """Return once ``value``, or one given later, is written.

        Parameters
        ----------
        value
            Replaces all that waits.
        interval_s
            Least time from this write to the next.
        """
        self._given += 1
        ticket = self._given
        self._newest = ticket, value
        async with self._turn:
            if self._written >= ticket:
                return
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
            newest, value = self._newest
            await asyncio.to_thread(self._write_in_order, newest, value)
            self._written = newest
            self._not_before = loop.time() + interval_s

    def _write_in_order(self, ticket: int, value: T) -> None:
        with self._in_thread:
            if ticket < self._started:
                return
            self._started = ticket
            self._write(value)
