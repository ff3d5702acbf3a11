"""Whether the API server answers at all, as all calls of one client see it."""

import asyncio
import random
from contextlib import suppress
from http import HTTPStatus
from typing import Final

# What stands before a server answers so while that is away.
_AWAY: Final = frozenset(
    {
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
# All that waited must not come back in the same moment.
_SPREAD_S: Final = 0.3


class Reach:
    """Lets those who wait for their next attempt know that one has just succeeded.

    After a long outage each would otherwise wait for the rest of its own delay,
    while the lease's calls, which are the most frequent, are answered again.
    """

    def __init__(self) -> None:
        self._answered = asyncio.Event()
        self._answered.set()

    @property
    def is_lost(self) -> bool:
        """Whether the last call had no answer."""
        return not self._answered.is_set()

    def note_answer(self, status: int) -> None:
        """Take note of an answer."""
        if status in _AWAY:
            self.note_silence()
        else:
            self._answered.set()

    def note_silence(self) -> None:
        """Take note of a call without an answer."""
        self._answered.clear()

    async def wait(self, delay_s: float) -> None:
        """Wait for ``delay_s`` seconds; if the server is lost, until it is back."""
        if not self.is_lost:
            await asyncio.sleep(delay_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._answered.wait()
                await asyncio.sleep(random.uniform(0, _SPREAD_S))  # noqa: S311 - not a secret
