"""Backends under one contract: whatever is behind the port, the same questions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from aiohttp import web
from traitlets.config import Config

from backends.database.launcher import Role
from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.domain.options import Integer, Options
from gateway.domain.policy import Policy
from gateway.ports import Backend
from tests.support.database import (
    FakeBackend,
    FakeScheduler,
    make_backend,
    reach,
    running,
)
from tests.support.fake_launcher import FakeLauncher, Platform
from tests.support.fake_routes import FakeRoutes
from tests.support.memory_backend import MemoryBackend

# What every subject offers its users.
OPTIONS = Options(Integer("size", default=1, min=0, max=9))
MAX_WORKERS = 8


class Subject:
    """A backend, and the little that a test must do behind its back."""

    backend: Backend

    async def run(self, name: str) -> None:
        """Bring a cluster to RUNNING."""
        raise NotImplementedError

    async def token(self, name: str) -> str:
        """Return the token that the cluster's scheduler has."""
        raise NotImplementedError


class MemorySubject(Subject):
    """The backend of the API's own tests."""

    def __init__(self, policy: Policy) -> None:
        self.memory = MemoryBackend(OPTIONS, policy=policy, max_workers=MAX_WORKERS)
        self.backend = self.memory

    async def run(self, name: str) -> None:
        await self.memory.run(name)

    async def token(self, name: str) -> str:
        return self.memory.entries[name].token


class Alternating:
    """Sends each call to the next of several servers, as a load balancer may."""

    def __init__(self, backends: list[FakeBackend]) -> None:
        self._backends = backends
        self._turn = count()

    def __getattr__(self, name: str) -> Any:
        # At the call, not before: a bound method may be kept.
        def call(*words: Any, **named: Any) -> Any:
            backend = self._backends[next(self._turn) % len(self._backends)]
            return getattr(backend, name)(*words, **named)

        return call


class DatabaseSubject(Subject):
    """One or more servers on one database and one platform."""

    def __init__(self, backends: list[FakeBackend], platform: Platform) -> None:
        self.backends = backends
        self.platform = platform
        self.backend = Alternating(backends)

    async def run(self, name: str) -> None:
        await reach(self.backends[0], name, PublicStatus.RUNNING)

    async def token(self, name: str) -> str:
        backend = self.backends[0]
        head = await backend._find(name)
        return (await backend._run.keyring.open_all(head.cluster)).token

    async def play(self) -> None:
        """Be the plugin of each scheduler, for ever."""
        schedulers: dict[str, FakeScheduler] = {}
        while True:
            for ref in self.platform.alive(role=Role.SCHEDULER):
                known = schedulers.setdefault(
                    ref.cluster, FakeScheduler(self.platform, ref.cluster)
                )
                # Its own target would meddle with those of the test.
                with suppress(Unavailable, ClusterNotFound):
                    await known.step(self.backends[0])
            await asyncio.sleep(0.05)


@asynccontextmanager
async def memory_subject(policy: Policy) -> AsyncIterator[Subject]:
    """Yield the backend in memory."""
    subject = MemorySubject(policy)
    await subject.memory.setup(web.Application())
    yield subject
    await subject.memory.cleanup()


@asynccontextmanager
async def database_subject(
    url: str, policy: Policy, *, servers: int = 1
) -> AsyncIterator[Subject]:
    """Yield servers on the database ``url``."""
    platform = Platform()
    config = Config({"ClusterConfig": {"cluster_max_workers": MAX_WORKERS}})
    backends = [
        make_backend(
            url,
            launcher=FakeLauncher(platform),
            routes=FakeRoutes(),
            policy=policy,
            config=config,
            cluster_options=OPTIONS,
        )
        for _ in range(servers)
    ]
    subject = DatabaseSubject(backends, platform)
    async with _all_running(backends), asyncio.TaskGroup() as group:
        player = group.create_task(subject.play())
        try:
            yield subject
        finally:
            player.cancel()


@asynccontextmanager
async def _all_running(backends: list[FakeBackend]) -> AsyncIterator[None]:
    if not backends:
        yield
        return
    async with running(backends[0]), _all_running(backends[1:]):
        yield
