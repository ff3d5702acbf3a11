"""Call code of a site's own, which may raise anything at all."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class ForeignExit(Exception):
    """Code that was called wanted to end more than its own call."""


@contextmanager
def contained() -> Iterator[None]:
    """Let nothing in the block end the process, or pass for a cancellation.

    A configuration file's function that calls ``sys.exit``, or awaits a task
    that somebody cancelled, fails in its own call; else it would end the
    gateway for everybody, or drop a connection without a word.

    Raises
    ------
    ForeignExit
        For `SystemExit`, `KeyboardInterrupt` and the like, and for a
        `asyncio.CancelledError` that nobody asked of this task. Signals are not
        concerned: the gateway takes them by the loop.
    """
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ForeignExit("it awaited what was cancelled") from error
    except BaseException as error:
        raise ForeignExit(f"it raised {type(error).__name__}") from error
