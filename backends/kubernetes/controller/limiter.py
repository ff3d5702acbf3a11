"""How many writes go out at once: more while all is well, fewer when asked for.

Additive increase, multiplicative decrease, as TCP: several controllers and all
other clients share one API server, and none knows what it can bear.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from backends.kubernetes.api.errors import Transient
from gateway.aio.backoff import Backoff

_LEAST: Final = 2
_START: Final = 24
# More in flight gains nothing: the API server's own limits queue them.
_MOST: Final = 48


class Limiter:
    """Room for a number of writes that follows what the API server says.

    Parameters
    ----------
    rate_limit
        Most writes per second; 0 is no limit.
    """

    def __init__(self, rate_limit: float = 0.0) -> None:
        self._room = float(_START)
        self._active = 0
        self._freed = asyncio.Condition()
        self._interval_s = 1 / rate_limit if rate_limit > 0 else 0.0
        self._next_at = 0.0
        self._pause = Backoff(0.1, 5.0)

    @property
    def room(self) -> int:
        """How many writes may be on their way now."""
        return int(self._room)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for room, and learn from how the write inside ends."""
        await self._enter()
        try:
            yield
        except Transient as error:
            self._shrink(error)
            raise
        else:
            self._grow()
        finally:
            await self._leave()

    async def _enter(self) -> None:
        async with self._freed:
            await self._freed.wait_for(lambda: self._active < self.room)
            self._active += 1
        loop = asyncio.get_running_loop()
        wait_s = self._next_at - loop.time()
        self._next_at = max(self._next_at, loop.time()) + self._interval_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _leave(self) -> None:
        async with self._freed:
            self._active -= 1
            self._freed.notify_all()

    def _grow(self) -> None:
        self._pause.reset()
        self._room = min(_MOST, self._room + 1 / self._room)

    def _shrink(self, error: Transient) -> None:
        if not error.is_throttled:
            return
        self._room = max(_LEAST, self._room / 2)
        loop = asyncio.get_running_loop()
        delay_s = max(error.retry_after_s, self._pause.next_s())
        self._next_at = max(self._next_at, loop.time() + delay_s)
