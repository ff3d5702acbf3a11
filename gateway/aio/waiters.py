"""Calls that are held until something of a name changes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

# Far above what one server holds (a call per scheduler and waiting client).
_MOST: Final = 50_000
# Beyond these, a call looks again by itself so often, in seconds.
_CROWDED_S: Final = 1.0


class Waiters:
    """Wakes whoever waits for a name; forgets a name that nobody waits for."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._events: dict[str, set[asyncio.Event]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many calls are held."""
        return self._count

    @property
    def names(self) -> int:
        """Number of names that somebody waits for."""
        return len(self._events)

    @contextmanager
    def listen(self, name: str) -> Iterator[asyncio.Event | None]:
        """Yield an event that the next `ring` for ``name`` sets.

        ``None`` if too many wait already; then the caller must look again by
        itself.
        """
        if self._count >= self._most:
            yield None
            return
        event = asyncio.Event()
        self._events.setdefault(name, set()).add(event)
        self._count += 1
        try:
            yield event
        finally:
            self._count -= 1
            self._events[name].discard(event)
            if not self._events[name]:
                del self._events[name]

    async def wait(
        self, name: str, is_over: Callable[[], Awaitable[bool]], timeout_s: float
    ) -> None:
        """Return at the next `ring` for ``name``, or when the time is over.

        Parameters
        ----------
        is_over
            Whether there is nothing to wait for; asked once it is listened, so
            that no change falls in between.
        timeout_s
            Seconds to wait at most; much fewer where too many wait already.
        """
        with self.listen(name) as event:
            if await is_over():
                return
            if event is None:
                await asyncio.sleep(min(timeout_s, _CROWDED_S))
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await event.wait()

    def ring(self, name: str) -> None:
        """Wake all that wait for ``name``."""
        for event in self._events.get(name, ()):
            event.set()

    def ring_all(self) -> None:
        """Wake everybody."""
        for name in self._events:
            self.ring(name)
