"""Delays between attempts that fail: exponential, capped, with full jitter."""

import asyncio
import random
from collections.abc import Callable


class Backoff:
    """Delays that double from ``base_s`` to ``cap_s``, each drawn from below.

    Parameters
    ----------
    base_s
        Upper bound of the first delay, in seconds, > 0.
    cap_s
        Upper bound of every delay, in seconds, >= ``base_s``.
    uniform
        Draws a number between two bounds; tests pass their own.

    Notes
    -----
    Full jitter, because callers who failed together must not come back
    together (M. Brooker, "Exponential Backoff And Jitter", 2015).

    Examples
    --------
    >>> backoff = Backoff(1, 5, uniform=lambda low, high: high)
    >>> [backoff.next_s() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> backoff.reset()
    >>> backoff.next_s()
    1.0
    """

    def __init__(
        self,
        base_s: float,
        cap_s: float,
        *,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        if not 0 < base_s <= cap_s:
            raise ValueError(f"need 0 < base_s <= cap_s, got {base_s} and {cap_s}")
        self._base_s = float(base_s)
        self._cap_s = float(cap_s)
        self._uniform = uniform
        self._failures = 0

    @property
    def failures(self) -> int:
        """Number of delays since the last `reset`."""
        return self._failures

    def delay_s(self, failures: int) -> float:
        """Return a delay after ``failures`` (>= 1) attempts; keeps nothing.

        For callers that count the failures of many keys themselves.
        """
        # Beyond 2**63 every cap is passed and the float would overflow.
        bound = self._base_s * 2.0 ** min(max(failures, 1) - 1, 63)
        return self._uniform(0.0, min(self._cap_s, bound))

    def next_s(self) -> float:
        """Count one more failure and return how many seconds to wait."""
        self._failures += 1
        return self.delay_s(self._failures)

    def reset(self) -> None:
        """Forget all failures, after a success."""
        self._failures = 0

    async def sleep(self) -> None:
        """Count one more failure and wait."""
        await asyncio.sleep(self.next_s())
