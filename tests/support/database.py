"""A database backend on fakes, and a scheduler's plugin that plays along."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from backends.database.backend import DatabaseBackend
from backends.database.launcher import JobRef, JobState, Role
from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.domain.policy import Policy
from gateway.domain.sync import Ports, SyncReply, SyncReport
from gateway.domain.user import User
from gateway.ports import Clock
from tests.support.eventually import eventually
from tests.support.fake_launcher import (
    DASHBOARD_PORT,
    SCHEDULER_PORT,
    FakeLauncher,
    Platform,
)
from tests.support.fake_routes import FakeRoutes

ALICE = User("alice", groups=["lab"])
BOB = User("bob", groups=["lab"])

# A fixed key: backends that share a database need the same.
KEY = "0123456789abcdef0123456789abcdef"

_EVERY_S = 0.02


class FakeBackend(DatabaseBackend):
    """The backend under test, on a launcher and routes of the test."""

    launcher: FakeLauncher
    routes: FakeRoutes

    def make_launcher(self) -> FakeLauncher:
        return self.launcher

    def make_routes(self) -> FakeRoutes:
        return self.routes


def make_backend(
    url: str = "sqlite://",
    *,
    launcher: FakeLauncher | None = None,
    routes: FakeRoutes | None = None,
    policy: Policy | None = None,
    clock: Clock | None = None,
    **traits: Any,
) -> FakeBackend:
    """Return a backend that is not yet set up, with short periods."""
    settings: dict[str, Any] = {
        "db_url": url,
        "db_encrypt_keys": [KEY],
        "policy": policy or Policy(),
        "observe_period": 0.05,
        "lease_duration": 2,
        "backoff_base_delay": 0.02,
        "backoff_max_delay": 0.2,
        "shutdown_timeout": 30,
        **traits,
    }
    backend = FakeBackend(**settings)
    backend.launcher = launcher or FakeLauncher()
    backend.routes = routes or FakeRoutes()
    if clock is not None:
        backend.clock = clock
    backend.launcher.platform.now_ms = backend._now_ms
    return backend


@asynccontextmanager
async def running(backend: FakeBackend) -> AsyncIterator[FakeBackend]:
    """Set a backend up, and clean it up in the end."""
    await backend.setup(web.Application())
    try:
        yield backend
    finally:
        await backend.cleanup()


async def crash(backend: FakeBackend) -> None:
    """End a backend as kill -9 would: nothing is released, nothing is said."""
    runtime = backend._runtime
    assert runtime is not None
    await runtime._supervisor.stop()
    runtime._reconciler.queue.close()
    await runtime.close()
    backend._runtime = None


@dataclass
class FakeScheduler:
    """The plugin in a scheduler: reports, and drains what is not wanted.

    Parameters
    ----------
    name
        Of the cluster.
    never_connect
        Workers by ordinal's order that never get through to it.
    """

    platform: Platform
    name: str
    reply: SyncReply | None = None
    draining: set[str] = field(default_factory=set)
    never_connect: bool = False
    is_busy: bool = False
    target: int | None = None
    idle_s: float = 0.0
    no_client_s: float = 0.0

    @property
    def ref(self) -> JobRef:
        return JobRef(self.name, Role.SCHEDULER, "scheduler")

    def connected(self) -> list[str]:
        """Return names of our workers that run, the oldest first."""
        if self.never_connect:
            return []
        alive = self.platform.alive(self.name, Role.WORKER)
        running = [r for r in alive if self.platform.view(r).state is JobState.RUNNING]
        return sorted((r.name for r in running), key=_ordinal)

    def report(self) -> SyncReport:
        """Return what the plugin would send now."""
        adaptive = None if self.reply is None else self.reply.adaptive
        return SyncReport(
            protocol=1,
            seen=0 if self.reply is None else self.reply.generation,
            adaptive_id=None if adaptive is None else adaptive.id,
            target=self.target,
            workers=tuple(n for n in self.connected() if n not in self.draining),
            draining=tuple(n for n in self.connected() if n in self.draining),
            ports=Ports(SCHEDULER_PORT, DASHBOARD_PORT),
            idle_s=self.idle_s,
            no_client_s=self.no_client_s,
        )

    async def step(self, backend: DatabaseBackend) -> None:
        """Report once and do what the answer asks for."""
        if self.platform.view(self.ref).state is not JobState.RUNNING:
            return
        self.reply = await backend.sync(self.name, self.report())
        free = [name for name in self.connected() if name not in self.draining]
        surplus = len(free) - self.reply.replicas
        if surplus > 0:
            self.draining |= set(free[-surplus:])
        elif surplus < 0:
            back = sorted(self.draining & set(self.connected()), key=_ordinal)
            self.draining -= set(back[:-surplus])
        elif not self.is_busy:
            for name in sorted(self.draining & set(self.connected())):
                self.platform.end(JobRef(self.name, Role.WORKER, name), 0)

    async def play(self, *backends: DatabaseBackend) -> None:
        """Report for ever, to one backend after the other."""
        turn = 0
        while True:
            with suppress(Unavailable, ClusterNotFound):
                await self.step(backends[turn % len(backends)])
            turn += 1
            await asyncio.sleep(_EVERY_S)


@asynccontextmanager
async def playing(
    scheduler: FakeScheduler, *backends: DatabaseBackend
) -> AsyncIterator[FakeScheduler]:
    """Let a scheduler report while the block lasts."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scheduler.play(*backends))
        try:
            yield scheduler
        finally:
            task.cancel()


async def reach(
    backend: DatabaseBackend, name: str, status: PublicStatus, within: float = 30
) -> None:
    """Wait until a cluster has ``status``."""

    async def has_status() -> bool:
        cluster = await backend.get_cluster(name)
        assert cluster.status is status, (cluster.status, cluster.message)
        return True

    await eventually(has_status, within=within, every=0.02)


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
