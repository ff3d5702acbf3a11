"""One deadline that several calls share."""

import asyncio


class Budget:
    """Time that is left for a piece of work, however many calls it makes.

    Starts to run when it is made, inside a running event loop.

    Parameters
    ----------
    total_s
        Seconds for the whole, >= 0.

    Examples
    --------
    ``async with budget.timeout(5): ...`` limits one call to 5 s or to what
    is left, whichever ends first.
    """

    def __init__(self, total_s: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + total_s

    @property
    def deadline(self) -> float:
        """The end, on the loop's clock."""
        return self._deadline

    def remaining_s(self) -> float:
        """Return the seconds that are left, >= 0."""
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def is_over(self) -> bool:
        """Return whether nothing is left."""
        return self.remaining_s() <= 0

    def timeout(self, at_most_s: float | None = None) -> asyncio.Timeout:
        """Return a context that ends its block in time with `TimeoutError`."""
        deadline = self._deadline
        if at_most_s is not None:
            deadline = min(deadline, asyncio.get_running_loop().time() + at_most_s)
        return asyncio.timeout_at(deadline)
