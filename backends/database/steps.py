"""Notice when the wall clock was set: by hand, by NTP, or after a long sleep."""

from datetime import datetime, timedelta
from typing import Final

from gateway.ports import Clock

# NTP itself slews what is less than this, and a loop that is held up is no step.
_LEAST_S: Final = 2.0


class StepWatch:
    """Tells since when the wall clock has run as evenly as the monotonic one.

    What was written down before a step cannot be compared with the time after it:
    an hour forward, and every deadline of less than an hour seems to be over.

    Parameters
    ----------
    clock
        Both of its times are read.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = self._steady_since = clock.now()
        self._monotonic = clock.monotonic()

    def look(self) -> timedelta | None:
        """Return by how much the clock was set since the last look, if it was."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        passed = timedelta(seconds=monotonic - self._monotonic)
        step = wall - self._wall - passed
        self._wall, self._monotonic = wall, monotonic
        if abs(step.total_seconds()) < _LEAST_S:
            return None
        self._steady_since = wall
        return step

    @property
    def steady_since(self) -> datetime:
        """The last step's time, by the new clock; when this was made if none."""
        return self._steady_since
