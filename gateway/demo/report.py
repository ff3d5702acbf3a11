"""Tell a person what a demo is doing, and how to mend what failed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from gateway.domain.errors import GatewayError


class StepFailed(GatewayError):
    """A step of the demo failed.

    Parameters
    ----------
    cause
        What went wrong, as it was seen.
    remedy
        What the person can do about it.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


class Report:
    """Prints one line per step, and the failed one with cause and remedy.

    Parameters
    ----------
    stream
        Where to print; standard output by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._number = 0

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print ``title`` now, and below it what became of the block.

        Raises
        ------
        StepFailed
            Whatever the block raised, with a remedy.
        """
        self._number += 1
        self.say(f"[{self._number}] {title}")
        try:
            yield
        except StepFailed as failed:
            self.say("", f"Step {self._number} failed: {title}")
            self.say(*(f"    {line}" for line in failed.cause.splitlines()))
            self.say(f"What to do: {failed.remedy}")
            raise

    def note(self, text: str) -> None:
        """Print a fact that belongs to the step under way."""
        self.say(*(f"    {line}" for line in text.splitlines()))

    def say(self, *lines: str) -> None:
        """Print ``lines`` at once, so that a person sees progress in a pipe too."""
        for line in lines:
            print(line, file=self._stream, flush=True)
