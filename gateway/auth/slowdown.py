"""Make guessing slow, without locking anybody out."""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.aio.limits import ExpiringMap

# A person mistypes a few times; a program that guesses does not stop there.
_FREE_FAILURES = 5
_FIRST_DELAY_S = 0.25
# Longer would let a guesser keep others from behind the same address out.
_LONGEST_DELAY_S = 4.0
_FORGET_AFTER_S = 300.0
_MAX_SOURCES = 10_000


class Slowdown:
    """Counts wrong passwords by source, and makes the next attempts wait.

    Parameters
    ----------
    monotonic
        As `gateway.ports.Clock.monotonic`.
    sleep
        Waits so many seconds.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._failures = ExpiringMap[str, int](
            _MAX_SOURCES, _FORGET_AFTER_S, monotonic=monotonic
        )
        self._sleep = sleep

    def delay_s(self, source: str) -> float:
        """Return how long an attempt from ``source`` has to wait now, in seconds."""
        excess = (self._failures.get(source) or 0) - _FREE_FAILURES
        if excess < 0:
            return 0.0
        return min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(excess, 16))

    async def wait(self, source: str) -> None:
        """Wait before an attempt from ``source``."""
        if (delay_s := self.delay_s(source)) > 0:
            await self._sleep(delay_s)

    def note_failure(self, source: str) -> None:
        """Count a wrong password from ``source``."""
        self._failures.put(source, (self._failures.get(source) or 0) + 1)
