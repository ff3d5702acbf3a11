"""Calls to the API server on a user's behalf: bounded in time, repeated where safe."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from backends.kubernetes.api.errors import Transient
from gateway.aio.backoff import Backoff
from gateway.aio.budget import Budget
from gateway.domain.errors import Unavailable

T = TypeVar("T")

_BACKOFF: Final = (0.05, 1.0)


class PatientCalls:
    """Makes a call again while it may yet succeed, within one time for all tries.

    Only what can be repeated: reads, patches that say how things are to be, and
    creations of names that nobody else gives.

    Parameters
    ----------
    longest_s
        Longest time for one call with all its tries, in seconds.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s

    async def make(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what ``call`` returns.

        Raises
        ------
        Unavailable
            If the API server has not answered in time.
        KubeError
            As the API server refused.
        """
        budget = Budget(self._longest_s)
        backoff = Backoff(*_BACKOFF)
        last: Transient | None = None
        while True:
            try:
                async with budget.timeout():
                    return await call()
            except TimeoutError as error:
                text = f"no answer of Kubernetes' API server in {self._longest_s:g} s"
                raise last or Unavailable(text) from error
            except Transient as error:
                last = error
                delay_s = backoff.next_s()
                if error.is_throttled:
                    delay_s = max(delay_s, error.retry_after_s)
                if delay_s >= budget.remaining_s():
                    raise
                await asyncio.sleep(delay_s)
