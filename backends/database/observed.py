"""What was seen of a cluster's jobs and routes, as plain values. Pure."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.database.launcher import JobRef, JobState, JobView

# A platform may lose sight of a job for a moment; nothing is declared lost sooner.
LOST_AFTER_MS: Final = 10_000

_ABSENT: Final = JobView(JobState.ABSENT)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A start that keeps failing for a cause that may pass.

    Parameters
    ----------
    text
        What the last attempt said.
    since_ms
        Instant of the first attempt in a row that failed.
    """

    text: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Observed:
    """What one server sees of one cluster. May be stale, and lost by a crash.

    Parameters
    ----------
    jobs
        As the launcher shows them; what is not in it is absent.
    absent_since_ms
        Since when each absent job has been looked for in vain.
    refused
        Why a job can never be started, as the launcher said.
    troubles
        Starts that keep failing.
    stopped
        Jobs of which the launcher said that nothing is left.
    asked_ms
        Since when each job has been asked to end.
    scheduler_proved
        Whether the scheduler at the reported port proved the cluster's CA and
        owns the port; ``None`` if it was not asked.
    route_proved
        Whether the cluster answered at the public port.
    serving_since_ms
        Since when this server has been there to be called by schedulers, and nobody
        has set its clock.
    """

    jobs: Mapping[JobRef, JobView] = field(default_factory=dict)
    absent_since_ms: Mapping[JobRef, int] = field(default_factory=dict)
    refused: Mapping[JobRef, str] = field(default_factory=dict)
    troubles: Mapping[JobRef, Trouble] = field(default_factory=dict)
    stopped: frozenset[JobRef] = frozenset()
    asked_ms: Mapping[JobRef, int] = field(default_factory=dict)
    scheduler_proved: bool | None = None
    route_proved: bool = False
    serving_since_ms: int = 0

    def view(self, ref: JobRef) -> JobView:
        """Return what is seen of ``ref``."""
        return self.jobs.get(ref, _ABSENT)

    def lost_at_ms(self, ref: JobRef, now_ms: int) -> int:
        """Return the instant from which an absent ``ref`` counts as lost."""
        return self.absent_since_ms.get(ref, now_ms) + LOST_AFTER_MS

    def overdue_at_ms(self, started_ms: int, timeout_s: float) -> int:
        """Return the instant at which a job should have called at the latest.

        Time in which this server was not there to be called does not count.
        """
        return max(started_ms, self.serving_since_ms) + round(timeout_s * 1000)


def describe_end(view: JobView) -> str:
    """Return how a job ended, for people.

    Examples
    --------
    >>> describe_end(JobView(JobState.ENDED, exit_code=3))
    'ended with exit status 3'
    >>> describe_end(JobView(JobState.ENDED, exit_code=-9, message="out of memory"))
    'was ended by SIGKILL: out of memory'
    >>> describe_end(JobView(JobState.ENDED))
    'ended; its exit status is not known'
    """
    if view.exit_code is None:
        how = "ended; its exit status is not known"
    elif view.exit_code < 0:
        how = f"was ended by {_format_signal(-view.exit_code)}"
    else:
        how = f"ended with exit status {view.exit_code}"
    return f"{how}: {view.message}" if view.message else how


def _format_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
