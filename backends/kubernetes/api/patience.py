"""How long a watch waits after failures in a row, and what is said of them."""

import asyncio
import random
from typing import Final

import structlog

from backends.kubernetes.api.errors import KubeError, Transient
from backends.kubernetes.api.reach import Reach
from gateway.aio.backoff import Backoff
from gateway.ports import Clock

log = structlog.get_logger(__name__)

BASE_S: Final = 0.2
_CAP_S: Final = 30.0
# An outage is told when it begins, and that it lasts, so often.
_TELL_S: Final = 30.0
# Watches that end or expire sooner are not opened again at once: a server or a
# proxy that ends each of them would be asked hundreds of times a second.
_SHORT_S: Final = 2.0


class Patience:
    """Of one watch.

    Parameters
    ----------
    reach
        Of the client that watches.
    place
        What is watched, for the log.
    """

    def __init__(self, reach: Reach, clock: Clock, place: dict[str, str]) -> None:
        self._reach = reach
        self._clock = clock
        self._place = place
        self._backoff = Backoff(BASE_S, _CAP_S)
        self._expiries = Backoff(BASE_S, _CAP_S)
        self._begun = clock.monotonic()
        self._failing_since: float | None = None
        self._told_at: float | None = None

    def begin(self) -> None:
        """Say that a watch is opened."""
        self._begun = self._clock.monotonic()

    def hear(self) -> None:
        """Say that the server has sent what was asked for."""
        self._backoff.reset()
        if self._failing_since is not None:
            after_s = round(self._clock.monotonic() - self._failing_since, 1)
            self._failing_since = None
            log.info("watch is back", after_s=after_s, **self._place)

    async def rest(self) -> None:
        """Wait before the next watch, after one that ended in good order."""
        self.hear()
        if self._lasted_s() < _SHORT_S:
            await asyncio.sleep(random.uniform(BASE_S, 1.0))  # noqa: S311 - not a secret

    async def rest_expired(self) -> None:
        """Wait before the next list, after a watch that has expired."""
        log.info("watch expired", **self._place)
        if self._lasted_s() >= _SHORT_S:
            self._expiries.reset()
        # Also the first: several of them at once must not list at once.
        await self._expiries.sleep()

    async def rest_failed(self, error: KubeError) -> None:
        """Wait before the next attempt, after one that has failed."""
        delay_s, now = self._backoff.next_s(), self._clock.monotonic()
        asked_s = 0.0
        if isinstance(error, Transient) and error.is_throttled:
            asked_s = error.retry_after_s
        delay_s = max(delay_s, asked_s)
        if self._failing_since is None:
            self._failing_since = now
        is_news = self._told_at is None or now - self._told_at >= _TELL_S
        if is_news:
            self._told_at = now
        tell = log.warning if is_news else log.debug
        tell(
            "watch failed",
            error=str(error),
            retry_in_s=round(delay_s, 2),
            **self._place,
        )
        await asyncio.sleep(asked_s)
        await self._reach.wait(delay_s - asked_s)

    def _lasted_s(self) -> float:
        return self._clock.monotonic() - self._begun
