"""Look at one cluster's jobs and routes. Decides nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.database.keyring import Keyring
from backends.database.launcher import JobRef, JobState, JobView, Launcher
from backends.database.observed import Observed, Trouble
from backends.database.plan import wants_route_proof, wants_scheduler_proof
from backends.database.records import Snapshot
from backends.database.route_table import RouteTable
from backends.database.routes import Route, Routes
from gateway.ports import Clock

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
    serving_since_ms
        Since when this server can be called by schedulers.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        routes: Routes,
        table: RouteTable,
        keyring: Keyring,
        clock: Clock,
        serving_since_ms: int,
    ) -> None:
        self._launcher = launcher
        self._routes = routes
        self._table = table
        self._keyring = keyring
        self._clock = clock
        self._serving_since_ms = serving_since_ms

    async def look_at(self, snapshot: Snapshot, memory: Memory) -> Observed:
        """Return what is seen of a cluster now."""
        refs = snapshot.job_refs()
        async with asyncio.timeout(OBSERVE_S):
            jobs = await self._launcher.observe(refs)
        now_ms = round(self._clock.now().timestamp() * 1000)
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
            serving_since_ms=self._serving_since_ms,
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


_ABSENT: Final = JobView(JobState.ABSENT)
