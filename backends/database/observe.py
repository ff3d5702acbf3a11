"""Look at one cluster's jobs and routes. Decides nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from backends.database.keyring import Keyring
from backends.database.launcher import JobRef, JobState, JobView, Launcher
from backends.database.observed import Observed, Trouble
from backends.database.plan import wants_route_proof, wants_scheduler_proof
from backends.database.records import Snapshot
from backends.database.route_table import RouteTable
from backends.database.routes import Route, Routes
from backends.database.steps import StepWatch
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# Beyond any answer of a machine that works; a proof has a shorter one of its own.
OBSERVE_S: Final = 30.0
_PROVE_S: Final = 10.0


@dataclass(slots=True)
class Memory:
    """What one server remembers of a cluster between two looks.

    Losing it costs a repetition and nothing else.
    """

    absent_since_ms: dict[JobRef, int] = field(default_factory=dict)
    refused: dict[JobRef, str] = field(default_factory=dict)
    troubles: dict[JobRef, Trouble] = field(default_factory=dict)
    stopped: set[JobRef] = field(default_factory=set)
    asked_ms: dict[JobRef, int] = field(default_factory=dict)

    def rebase(self, steady_since_ms: int, now_ms: int) -> None:
        """Count what was noted by another setting of the clock from the new one.

        Else an hour forward ends every patience, and an hour back prolongs it.
        """

        def count(since_ms: int) -> int:
            return max(steady_since_ms, min(since_ms, now_ms))

        for times in (self.absent_since_ms, self.asked_ms):
            times.update({ref: count(since_ms) for ref, since_ms in times.items()})
        for ref, trouble in self.troubles.items():
            self.troubles[ref] = Trouble(trouble.text, count(trouble.since_ms))

    def note_jobs(self, jobs: Mapping[JobRef, JobView], now_ms: int) -> None:
        """Keep since when each job of ``jobs`` is absent."""
        absent = [r for r, view in jobs.items() if view.state is JobState.ABSENT]
        before = self.absent_since_ms
        self.absent_since_ms = {ref: before.get(ref, now_ms) for ref in absent}

    def forget_ended(self, snapshot: Snapshot) -> None:
        """Drop what concerns jobs that the database no longer counts."""
        left = set(snapshot.job_refs())
        self.stopped &= left
        for kept in (self.refused, self.troubles, self.asked_ms):
            for ref in [ref for ref in kept if ref not in left]:
                del kept[ref]


class Observer:
    """Sees what the launcher and the proxy show.

    Parameters
    ----------
    steps
        Tells since when this server has been there to be called by schedulers, by
        a clock that nobody has set since.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        routes: Routes,
        table: RouteTable,
        keyring: Keyring,
        clock: Clock,
        steps: StepWatch,
    ) -> None:
        self._launcher = launcher
        self._routes = routes
        self._table = table
        self._keyring = keyring
        self._clock = clock
        self._steps = steps

    async def look_at(self, snapshot: Snapshot, memory: Memory) -> Observed:
        """Return what is seen of a cluster now."""
        refs = snapshot.job_refs()
        async with asyncio.timeout(OBSERVE_S):
            jobs = await self._launcher.observe(refs)
        step = self._steps.look()
        if step is not None:
            log.warning("clock was set", by_s=round(step.total_seconds(), 1))
        since_ms = _to_ms(self._steps.steady_since)
        now_ms = _to_ms(self._clock.now())
        memory.rebase(since_ms, now_ms)
        memory.note_jobs({ref: jobs.get(ref, _ABSENT) for ref in refs}, now_ms)
        memory.forget_ended(snapshot)
        return Observed(
            jobs=jobs,
            absent_since_ms=dict(memory.absent_since_ms),
            refused=dict(memory.refused),
            troubles=dict(memory.troubles),
            stopped=frozenset(memory.stopped),
            asked_ms=dict(memory.asked_ms),
            scheduler_proved=await self._prove_scheduler(snapshot, jobs),
            route_proved=await self._prove_route(snapshot),
            serving_since_ms=since_ms,
        )

    async def _prove_scheduler(
        self, snapshot: Snapshot, jobs: Mapping[JobRef, JobView]
    ) -> bool | None:
        cluster = snapshot.cluster
        view = jobs.get(cluster.scheduler_ref, _ABSENT)
        port = cluster.scheduler_port
        if port is None or not wants_scheduler_proof(cluster, view):
            return None
        # A scheduler is a user's program and reports what it likes: only a port
        # of its own process, behind which is the cluster's key, is routed to.
        ref = cluster.scheduler_ref
        for reported in (port, cluster.dashboard_port):
            if reported is not None and (
                await self._launcher.owns_port(ref, reported) is False
            ):
                return False
        route = Route(cluster.name, view.host, port, cluster.dashboard_port)
        ca = (await self._keyring.open_all(cluster)).ca_certificate
        try:
            async with asyncio.timeout(_PROVE_S):
                return await self._routes.prove_scheduler(route, ca)
        except TimeoutError:
            return False

    async def _prove_route(self, snapshot: Snapshot) -> bool:
        cluster = snapshot.cluster
        if not wants_route_proof(cluster):
            return False
        await self._table.refresh()
        ca = (await self._keyring.open_all(cluster)).ca_certificate
        try:
            async with asyncio.timeout(_PROVE_S):
                return await self._routes.prove(cluster.name, ca)
        except TimeoutError:
            return False


def _to_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


_ABSENT: Final = JobView(JobState.ABSENT)
