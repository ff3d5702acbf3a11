"""A platform in memory that runs jobs, and a launcher on it. Faults on demand.

The platform outlives any launcher, as processes outlive a gateway: a test kills
one backend and gives the platform to the next.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backends.database.launcher import (
    JobRef,
    JobSpec,
    JobState,
    JobView,
    Role,
    StartFailed,
)

# The peer's own test asks for a real port; nothing ever connects to this one.
SCHEDULER_PORT = 18786
DASHBOARD_PORT = 18787


@dataclass(slots=True)
class Job:
    """One job; ``starts`` counts processes, of which there may be only one ever."""

    view: JobView
    starts: int = 1
    stops: int = 0
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Platform:
    """Where jobs run. Plain and synchronous, so that planners can be tested on it.

    Parameters
    ----------
    now_ms
        Clock of the platform.
    patience
        Number of stops that a job needs until nothing of it is left.
    """

    now_ms: Callable[[], int] = lambda: 0
    patience: int = 1
    jobs: dict[JobRef, Job] = field(default_factory=dict)
    closed: set[JobRef] = field(default_factory=set)
    forgotten: list[str] = field(default_factory=list)
    most_alive: dict[str, int] = field(default_factory=dict)

    def start(self, ref: JobRef, state: JobState = JobState.RUNNING) -> None:
        """Start ``ref`` unless it ever was."""
        if ref in self.jobs or ref in self.closed:
            return
        started_ms = self.now_ms() if state is JobState.RUNNING else None
        self.jobs[ref] = Job(JobView(state, started_ms=started_ms))
        alive = len(self.alive(ref.cluster, Role.WORKER))
        self.most_alive[ref.cluster] = max(alive, self.most_alive.get(ref.cluster, 0))

    def run(self, ref: JobRef) -> None:
        """Let a job leave the platform's queue."""
        job = self.jobs[ref]
        if job.view.state is JobState.PENDING:
            job.view = JobView(JobState.RUNNING, started_ms=self.now_ms())

    def end(self, ref: JobRef, exit_code: int | None = 0, *lines: str) -> None:
        """End a job by itself."""
        job = self.jobs[ref]
        if job.view.state is JobState.ENDED:
            return
        job.lines += lines
        job.view = replace(
            job.view,
            state=JobState.ENDED,
            exit_code=exit_code,
            log_tail=tuple(job.lines[-20:]),
        )

    def stop(self, ref: JobRef) -> bool:
        """Ask a job to end; one that never was is closed for good."""
        job = self.jobs.get(ref)
        if job is None:
            self.closed.add(ref)
            return True
        if job.view.state is JobState.ENDED:
            return True
        job.stops += 1
        if job.stops < self.patience:
            return False
        self.end(ref, -15)
        return True

    def view(self, ref: JobRef) -> JobView:
        """Return what is to be seen of ``ref``."""
        job = self.jobs.get(ref)
        return JobView(JobState.ABSENT) if job is None else job.view

    def alive(
        self, cluster: str | None = None, role: Role | None = None
    ) -> set[JobRef]:
        """Return jobs of which something is left."""
        return {
            ref
            for ref, job in self.jobs.items()
            if job.view.state is not JobState.ENDED
            and cluster in (None, ref.cluster)
            and role in (None, ref.role)
        }

    def forget(self, cluster: str) -> None:
        """Remove all traces of ``cluster``."""
        assert not self.alive(cluster), "forgotten while it runs"
        self.forgotten.append(cluster)
        self.jobs = {r: j for r, j in self.jobs.items() if r.cluster != cluster}
        self.closed = {r for r in self.closed if r.cluster != cluster}


class FakeLauncher:
    """A `backends.database.launcher.Launcher` on a `Platform`.

    Attributes
    ----------
    refuse
        Text by role: such jobs can never be started.
    fail
        Called before each start and stop with its name and ref; what it raises
        is raised.
    lose
        Called after each start and stop; what it raises hides that it worked.
    first_state
        In which a job begins.
    """

    def __init__(self, platform: Platform | None = None) -> None:
        self.platform = platform or Platform()
        self.refuse: dict[Role, str] = {}
        self.fail: Callable[[str, JobRef], None] = lambda _name, _ref: None
        self.lose: Callable[[str, JobRef], None] = lambda _name, _ref: None
        self.first_state = JobState.RUNNING
        self.foreign_ports: set[int] = set()
        self.specs: dict[JobRef, JobSpec] = {}
        self.is_set_up = False

    async def setup(self) -> None:
        self.is_set_up = True

    async def cleanup(self) -> None:
        self.is_set_up = False

    async def start(self, spec: JobSpec) -> None:
        await asyncio.sleep(0)
        self.fail("start", spec.ref)
        if spec.ref.role in self.refuse:
            raise StartFailed(self.refuse[spec.ref.role])
        self.specs[spec.ref] = spec
        self.platform.start(spec.ref, self.first_state)
        self.lose("start", spec.ref)

    async def observe(self, refs: Sequence[JobRef]) -> Mapping[JobRef, JobView]:
        await asyncio.sleep(0)
        return {ref: self.platform.view(ref) for ref in refs}

    async def stop(self, ref: JobRef) -> bool:
        await asyncio.sleep(0)
        self.fail("stop", ref)
        is_gone = self.platform.stop(ref)
        self.lose("stop", ref)
        return is_gone

    async def forget(self, cluster: str) -> None:
        self.platform.forget(cluster)

    async def read_logs(
        self, ref: JobRef, *, tail: int, follow: bool
    ) -> AsyncIterator[str]:
        del follow
        job = self.platform.jobs.get(ref)
        for line in [] if job is None or not tail else job.lines[-tail:]:
            yield line

    async def find_jobs(self) -> Sequence[JobRef]:
        return list(self.platform.jobs)

    async def owns_port(self, ref: JobRef, port: int) -> bool | None:
        del ref
        return port not in self.foreign_ports
