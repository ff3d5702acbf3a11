"""Say that the database is away: once, then now and then, and when it is back.

That the launcher cannot do something is told in its own words, and no oftener.
"""

from typing import Final

import structlog

from backends.database.launcher import LauncherAway
from gateway.domain.errors import Unavailable
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# Everything that runs meets the outage; one line in half a minute is enough.
_PERIOD_S: Final = 30.0


class Outage:
    """Collects what all tasks of a server find out about the database."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._told: float | None = None
        self._told_of_launcher: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the last that was heard is that it is away."""
        return self._since is not None

    def note(self, error: Unavailable) -> None:
        """Take note of a failed call."""
        now = self._clock.monotonic()
        if isinstance(error, LauncherAway):
            told = self._told_of_launcher
            if told is None or now - told >= _PERIOD_S:
                self._told_of_launcher = now
                log.warning("launcher fails", error=str(error))
            return
        if self._since is None:
            self._since = now
        if self._told is None or now - self._told >= _PERIOD_S:
            self._told = now
            log.warning("database away", error=str(error), cause=_describe(error))

    def note_answer(self) -> None:
        """Take note of a call that was answered."""
        if self._since is not None:
            away_s = round(self._clock.monotonic() - self._since, 1)
            log.info("database answers again", away_s=away_s)
            self._since = self._told = None


def _describe(error: Unavailable) -> str:
    # The class alone: texts of drivers repeat statements and addresses.
    return type(error.__cause__).__name__
