"""Look at clusters as they are woken: several at once, each by one worker at a time."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from backends.kubernetes.api.errors import StaleWrite, Transient
from backends.kubernetes.controller.metrics import Metrics
from backends.kubernetes.controller.settings import Pace
from backends.kubernetes.controller.writes import LeadLost
from gateway.aio.backoff import Backoff
from gateway.aio.queue import KeyedQueue
from gateway.domain.errors import BackendError
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# Looks at once one after the other, before something is taken for going in circles.
_AT_ONCE: Final = 20
_CIRCLE_S: Final = 2.0
_LEAD_S: Final = 1.0

Reconcile = Callable[[str], Awaitable[float | None]]


class Rounds:
    """Hands woken clusters to a reconciler, and comes back when it says.

    Parameters
    ----------
    queue
        Woken by informers.
    pace
        See `Pace`.
    """

    def __init__(
        self, queue: KeyedQueue[str], pace: Pace, metrics: Metrics, clock: Clock
    ) -> None:
        self._queue = queue
        self._pace = pace
        self._metrics = metrics
        self._clock = clock
        self._backoff = Backoff(pace.base_delay_s, pace.max_delay_s)
        self._failures: dict[str, int] = {}
        self._at_once: dict[str, int] = {}
        self._active: dict[str, float] = {}
        self._numbers = itertools.count(1)

    @property
    def longest_s(self) -> float:
        """How long the longest round of now has taken."""
        now = self._clock.monotonic()
        return max((now - begun for begun in self._active.values()), default=0.0)

    async def run(self, reconcile: Reconcile) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._pace.parallelism):
                tasks.create_task(self._work(reconcile), name=f"rounds {number}")

    async def _work(self, reconcile: Reconcile) -> None:
        while True:
            name = await self._queue.get()
            self._metrics.note_wait(self._queue.waited_s(name))
            try:
                delay_s = await self._look(name, reconcile)
            finally:
                self._queue.done(name)
            if delay_s is not None:
                self._queue.wake_after(name, self._slow_down(name, delay_s))

    async def _look(self, name: str, reconcile: Reconcile) -> float | None:
        begun = self._active[name] = self._clock.monotonic()
        outcome = "failed"
        with structlog.contextvars.bound_contextvars(
            cluster=name, reconcile_id=next(self._numbers)
        ):
            try:
                delay_s = await reconcile(name)
                outcome = "done"
            except LeadLost:
                # It may be renewed yet, and then nobody else would look again.
                outcome, delay_s = "lead lost", _LEAD_S
            except StaleWrite as error:
                outcome = "stale"
                log.debug("round made from an old view", error=str(error))
                return self._fail(name)
            except BackendError as error:
                log.warning("round failed", error=str(error))
                return self._fail(name, error)
            except Exception as error:  # one cluster must not end all others'
                outcome = "bug"
                log.exception("round failed", exc_info=error)
                return self._fail(name)
            finally:
                del self._active[name]
                self._metrics.note_round(outcome, self._clock.monotonic() - begun)
        self._failures.pop(name, None)
        return delay_s

    def _fail(self, name: str, error: BackendError | None = None) -> float:
        self._failures[name] = self._failures.get(name, 0) + 1
        delay_s = self._backoff.delay_s(self._failures[name])
        if isinstance(error, Transient) and error.is_throttled:
            delay_s = max(delay_s, error.retry_after_s)
        return delay_s

    def _slow_down(self, name: str, delay_s: float) -> float:
        if delay_s > 0:
            self._at_once.pop(name, None)
            return delay_s
        self._at_once[name] = self._at_once.get(name, 0) + 1
        if self._at_once[name] < _AT_ONCE:
            return 0.0
        log.warning("cluster goes in circles", cluster=name)
        return _CIRCLE_S
