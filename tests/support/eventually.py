"""Wait until something holds, without guessing how long it takes.

A test that sleeps for a guessed time is slow on a fast machine and red on a
loaded one.  ``eventually`` asks again until the answer is yes, and when it never
is, fails with what was last wrong.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")


async def eventually(
    check: Callable[[], T | Awaitable[T]], *, within: float = 30.0, every: float = 0.05
) -> T:
    """Return the first truthy value of ``check``, asked again and again.

    Parameters
    ----------
    check
        A plain or async callable.  A falsy value or an ``AssertionError`` means
        "not yet"; any other exception is a broken test and goes through at once.
    within
        Seconds until the wait is given up.  Generous on purpose: it is only
        spent by a test that fails.
    every
        Seconds between two questions.

    Raises
    ------
    AssertionError
        When the time is over, with the last failure as its text and cause.
    """
    deadline = time.monotonic() + within
    while True:
        failure: AssertionError | None = None
        value: object = None
        try:
            outcome = check()
            value = await outcome if inspect.isawaitable(outcome) else outcome
            if value:
                return cast("T", value)
        except AssertionError as error:
            failure = error
        if time.monotonic() >= deadline:
            last = failure if failure is not None else f"last value was {value!r}"
            raise AssertionError(
                f"did not hold within {within:g} s: {last}"
            ) from failure
        await asyncio.sleep(every)
