"""The API server's own time, which stands in all objects, as far as it is known."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from gateway.ports import Clock

# Answers that took longer say too little of when they were written.
_MOST_S: Final = 1.0
# The header has whole seconds, and servers behind one address differ a little.
_STEP_S: Final = 3.0


class ServerClock:
    """A `gateway.ports.Clock` that goes by the ``Date`` of the API server's answers.

    What is decided from times in objects must not hang on this machine's wall clock,
    which may be wrong by hours, or step. Between two answers the monotonic clock
    counts; before the first, the wall clock has to do.

    Parameters
    ----------
    local
        Of this machine.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._offset_s: float | None = None

    def now(self) -> datetime:
        """Return the API server's time, UTC, right to about a second; it may step."""
        if self._offset_s is None:
            return self._local.now()
        return datetime.fromtimestamp(self._offset_s, UTC) + timedelta(
            seconds=self._local.monotonic()
        )

    def monotonic(self) -> float:
        """Return seconds of this machine's clock that never steps."""
        return self._local.monotonic()

    def note(self, date: str, sent_s: float) -> None:
        """Learn from the ``Date`` of an answer to a call sent at ``monotonic()``.

        What is no date says nothing.
        """
        received_s = self._local.monotonic()
        if received_s - sent_s > _MOST_S:
            return
        try:
            told = parsedate_to_datetime(date)
        except ValueError:
            return
        # The second is cut off, so the true time is later: the latest is the best.
        offset_s = told.replace(tzinfo=UTC).timestamp() - received_s
        known = self._offset_s
        if known is None or offset_s > known or offset_s < known - _STEP_S:
            self._offset_s = offset_s
