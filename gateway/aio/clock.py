"""The one place that reads the machine's clocks."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Implements `gateway.ports.Clock` by the clocks of this machine."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, UTC; it may step."""
        return datetime.now(UTC)  # noqa: TID251 - what everybody else takes as a Clock

    def monotonic(self) -> float:
        """Return seconds of a clock that never steps; only differences count."""
        return time.monotonic()
