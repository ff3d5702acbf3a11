"""What the database backend needs from whatever runs its processes.

A launcher starts, observes and stops *jobs*: one scheduler or one worker. It
keeps no list of its own: everything is found again from a job's id, so that
another process of ours can take over at any point.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from gateway.domain.config import ResolvedConfig
from gateway.domain.credentials import Credentials
from gateway.domain.errors import Unavailable


class Role(StrEnum):
    """What a job runs."""

    SCHEDULER = "scheduler"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class JobRef:
    """Which job: stable, and the same after any restart.

    Parameters
    ----------
    cluster
        Name of the cluster.
    role
        Scheduler or worker.
    name
        ``scheduler``, or the worker's name in Dask.
    """

    cluster: str
    role: Role
    name: str


@dataclass(frozen=True, slots=True)
class JobSpec:
    """All that is needed to start one job.

    Parameters
    ----------
    ref
        Which job.
    owner
        Name of the user that the cluster belongs to.
    config
        Of the cluster.
    credentials
        Of the cluster; the launcher writes down only what the role needs.
    api_url
        Where the scheduler's plugin finds the API, ending in ``/api``.
    scheduler_address
        For a worker: ``tls://host:port``.
    """

    ref: JobRef
    owner: str
    config: ResolvedConfig
    credentials: Credentials = field(repr=False)
    api_url: str
    scheduler_address: str | None = None


class JobState(StrEnum):
    """What a launcher sees of a job."""

    ABSENT = "absent"  # never started, or not a trace of it
    PENDING = "pending"  # accepted, waits in a queue of the platform
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the launcher sees it now.

    Parameters
    ----------
    state
        See `JobState`. ``ENDED`` is final.
    exit_code
        Exit status, minus the signal's number if a signal ended it; ``None``
        while it runs or if nobody knows.
    started_ms
        When it began to run, milliseconds since the epoch.
    host
        Where it runs, as the proxy can reach it.
    message
        Why it ended or cannot start, for people; "" if there is nothing to say.
    log_tail
        Last lines of output, for an ended job.
    pids
        Process ids of the job on this machine, if the launcher knows them.
    """

    state: JobState
    exit_code: int | None = None
    started_ms: int | None = None
    host: str = "127.0.0.1"
    message: str = ""
    log_tail: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()


class LauncherAway(Unavailable):
    """The launcher cannot do it now; the text says what and why."""


class StartFailed(Exception):
    """A job cannot be started as it is; the text says why and what to do."""


class Launcher(Protocol):
    """Runs jobs. Every method may be repeated, and be called by any replica."""

    async def setup(self) -> None:
        """Check what is needed to run jobs; raise `ConfigError` if it lacks."""
        ...

    async def cleanup(self) -> None:
        """Release what this object holds; jobs go on running."""
        ...

    async def start(self, spec: JobSpec) -> None:
        """Start the job once, ever.

        A second call with the same ref, after a crash between start and
        record too, starts nothing. A job that has ended is not started again.

        Raises
        ------
        StartFailed
            If it can never start as it is: no such command, no such user.
        """
        ...

    async def observe(self, refs: Sequence[JobRef]) -> Mapping[JobRef, JobView]:
        """Return a view of each ref. Cheap: called every second or so."""
        ...

    async def stop(self, ref: JobRef) -> bool:
        """Ask the job to end, harder each time the platform's patience is over.

        A job that was never started is not to be started afterwards, as far as
        the launcher can see to it; a sweep ends what slips through.

        Returns
        -------
        bool
            True once nothing of the job is left running.
        """
        ...

    async def forget(self, cluster: str) -> None:
        """Remove every trace of an ended cluster, logs included."""
        ...

    def read_logs(self, ref: JobRef, *, tail: int, follow: bool) -> AsyncIterator[str]:
        """Yield output lines, oldest first; `follow` until the job has ended."""
        ...

    async def find_jobs(self) -> Sequence[JobRef]:
        """Return every job of which there is a trace, for finding orphans."""
        ...

    async def owns_port(self, ref: JobRef, port: int) -> bool | None:
        """Return whether the job listens on ``port``, ``None`` if nobody knows."""
        ...


LauncherState = Mapping[str, Any]
