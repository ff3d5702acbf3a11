"""A keyed work queue: an event wakes a key, a worker then looks at everything."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyedQueue(Generic[K]):
    """Hands each woken key to one worker at a time, however often it was woken.

    A wake of a key that waits already is coalesced; a wake of a key that is
    being worked on hands it out again after `done`. Nothing is lost, nothing
    is counted: workers act on the state, not on the number of wakes.

    Not thread-safe; belongs to the event loop that first uses it.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        # Since when, by the loop's clock; of an active one, how long it waited.
        self._waiting: dict[K, float] = {}
        self._active: dict[K, float] = {}
        self._woken_again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return the number of keys that wait or are being worked on."""
        return len(self._waiting) + len(self._active)

    def wake(self, key: K) -> None:
        """Ask for a look at ``key``, as soon as a worker is free."""
        if key in self._active:
            self._woken_again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().time()
            self._ready.put_nowait(key)

    def wake_after(self, key: K, delay_s: float) -> None:
        """Ask for a look at ``key`` in ``delay_s`` seconds.

        One timer is kept per key, and of two the earlier one; a worker that
        needs another look later asks again. Earlier looks do not cancel it.
        """
        if delay_s <= 0:
            self.wake(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._ring, key)

    async def get(self) -> K:
        """Return the next key; the caller must call `done` with it."""
        key = await self._ready.get()
        now = asyncio.get_running_loop().time()
        self._active[key] = now - self._waiting.pop(key)
        return key

    def waited_s(self, key: K) -> float:
        """Return how many seconds a key had waited that is being worked on."""
        return self._active[key]

    def done(self, key: K) -> None:
        """Say that the look at ``key`` has ended, well or badly.

        Raises
        ------
        KeyError
            If ``key`` was not handed out.
        """
        del self._active[key]
        if key in self._woken_again:
            self._woken_again.discard(key)
            self.wake(key)

    def close(self) -> None:
        """Cancel all timers; waiting keys may still be taken."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, key: K) -> None:
        del self._timers[key]
        self.wake(key)
