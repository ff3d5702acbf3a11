"""The running parts of one server: connected at start, and ended together.

What they do is theirs; here they are only made, wired and owned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self
from uuid import uuid4

import structlog
from sqlalchemy.engine import URL

from backends.database.changes import ChangeFeed
from backends.database.engine import Database, database_file
from backends.database.executor import Executor
from backends.database.freshness import CommitStamp, Epochs, FreshMap
from backends.database.keyring import Keyring
from backends.database.launcher import JobRef, JobView, Launcher
from backends.database.leases import Lease
from backends.database.lookups import (
    list_expired,
    list_live,
    list_unclaimed,
    read_digest,
)
from backends.database.migrate import migrate
from backends.database.observe import Observer
from backends.database.outage import Outage
from backends.database.reconciler import Reconciler
from backends.database.route_table import RouteTable
from backends.database.routes import Routes
from backends.database.steps import StepWatch
from backends.database.store import Store
from backends.database.sweep import Sweeper
from backends.database.vault import Vault
from backends.database.watch import JobWatch
from gateway.aio.backoff import Backoff
from gateway.aio.tasks import Supervisor
from gateway.aio.waiters import Waiters
from gateway.domain.cluster import Cluster, PublicStatus
from gateway.domain.errors import Unavailable
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# A lease is renewed so often in its time: two renewals may fail.
_RENEWALS: Final = 3
# Bounds of memory; what has no room is read again.
_LISTS_KEPT: Final = 128
_ANSWERS_KEPT: Final = 2000
_KEPT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How one server runs; see the settings of the same names in ``config``.

    All times are in seconds.

    Parameters
    ----------
    gateway_url
        Where the proxy reaches this server.
    """

    url: URL
    keys: tuple[bytes, ...] = field(repr=False)
    timeout_s: float = 10.0
    echo: bool = False
    parallelism: int = 20
    backoff_base_s: float = 0.1
    backoff_max_s: float = 30.0
    observe_period_s: float = 1.0
    lease_s: float = 15.0
    retention_s: float = 86400.0
    cleanup_period_s: float = 600.0
    gateway_url: str = ""


class Runtime:
    """One server's part in looking after the clusters of a database.

    Parameters
    ----------
    launcher, routes
        Set up by the caller before `start`, cleaned up after `stop`.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        launcher: Launcher,
        routes: Routes,
        clock: Clock,
    ) -> None:
        self.server = uuid4().hex
        self.launcher = launcher
        self.clock = clock
        self.settings = settings
        self.waiters = Waiters()
        self.outage = Outage(clock)
        self.database = Database(
            settings.url, timeout_s=settings.timeout_s, echo=settings.echo
        )
        self.stamp = CommitStamp(database_file(settings.url))
        epochs = Epochs(self.stamp, lambda: read_digest(self.database))
        # Answers to requests; of lists by owner and statuses, of one by name.
        self.lists = FreshMap[
            tuple[str | None, frozenset[PublicStatus]], tuple[Cluster, ...]
        ](epochs, _LISTS_KEPT, ttl_s=_KEPT_S)
        self.answers = FreshMap[str, Cluster](epochs, _ANSWERS_KEPT, ttl_s=_KEPT_S)
        self.keyring = Keyring(self.database, Vault(settings.keys), clock)
        self.store = Store(self.database, server=self.server, announce=self._announce)
        self.lease = Lease(
            self.database,
            server=self.server,
            lease_s=settings.lease_s,
            clock=clock,
            url=settings.gateway_url,
        )
        self.routes = RouteTable(self.database, routes, self.lease)
        self._feed = ChangeFeed(
            self.database,
            server=self.server,
            notice=self._notice,
            outage=self.outage,
            period_s=settings.observe_period_s,
        )
        self._watch = JobWatch(
            launcher, wake=self._wake, period_s=settings.observe_period_s
        )
        self._sweeper = Sweeper(self.database, launcher)
        self._reconciler = self._make_reconciler(routes)
        self._supervisor = Supervisor(backoff=self._make_backoff)

    async def connect(self) -> Self:
        """Bring the database up to date and check that the keys fit it.

        Raises
        ------
        ConfigError, Unavailable
            As `backends.database.migrate.migrate` and `Keyring.check_keys`.
        """
        await migrate(self.database)
        await self.keyring.check_keys()
        await self.stamp.open()
        return self

    async def start(self) -> None:
        """Take part; returns once all that the database holds is known."""
        await self.lease.renew()
        await self.lease.drop_dead_servers()
        await self.lease.claim_free()
        await self._feed.look()
        await self.routes.refresh()
        for name in await list_live(self.database):
            self._wake(name)
        start = self._supervisor.start
        for number in range(self.settings.parallelism):
            start(f"reconcile-{number}", self._reconciler.work)
        start("poll-versions", self._feed.poll)
        start("poll-jobs", self._watch.poll)
        start("sweep", lambda: self._survive(self._sweeper.run))
        start("routes", lambda: self._survive(self.routes.run))
        start("lease", self._keep_lease)
        start("expire", self._expire)
        start("rotate-keys", lambda: self._survive(self.keyring.rotate))
        if self.database.is_postgresql:
            start("listen", self._listen)

    async def stop(self) -> None:
        """Take no more part; clusters go on, and other servers take over."""
        await self._supervisor.stop()
        self._reconciler.queue.close()
        try:
            await self.lease.release()
            await self.routes.leave()
        except Unavailable as error:
            self.outage.note(error)  # it ends by itself
        except OSError as error:  # the others write the table, too
            log.warning("table not written at the end", error=str(error))
        self.waiters.ring_all()

    async def close(self) -> None:
        """Close all connections."""
        self.stamp.close()
        await self.database.close()

    def _make_reconciler(self, routes: Routes) -> Reconciler:
        clock = self.clock
        observer = Observer(
            launcher=self.launcher,
            routes=routes,
            table=self.routes,
            keyring=self.keyring,
            clock=clock,
            steps=StepWatch(clock),
        )
        executor = Executor(
            launcher=self.launcher,
            store=self.store,
            keyring=self.keyring,
            lease=self.lease,
            clock=clock,
            parallelism=self.settings.parallelism,
        )
        return Reconciler(
            store=self.store,
            lease=self.lease,
            observer=observer,
            executor=executor,
            clock=clock,
            outage=self.outage,
            watch=self._keep_watch,
            backoff=self._make_backoff(),
            retention_s=self.settings.retention_s,
        )

    def _make_backoff(self) -> Backoff:
        return Backoff(self.settings.backoff_base_s, self.settings.backoff_max_s)

    def _announce(self, name: str, version: int) -> None:
        self._feed.note(name, version)
        self._notice(name)

    def _notice(self, name: str) -> None:
        self.waiters.ring(name)
        self.routes.wake()
        self._wake(name)

    def _wake(self, name: str) -> None:
        self._reconciler.queue.wake(name)

    def _keep_watch(self, name: str, views: dict[JobRef, JobView] | None) -> None:
        self._watch.keep(name, views)

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lease_s / _RENEWALS)
            try:
                await self.lease.renew()
                await self.lease.drop_dead_servers()
                names = await list_unclaimed(self.database)
            except Unavailable as error:
                self.outage.note(error)
                continue
            self.routes.recheck()
            for name in names:
                self._wake(name)

    async def _expire(self) -> None:
        period_s = min(self.settings.cleanup_period_s, self.settings.retention_s)
        while True:
            before = self.clock.now() - timedelta(seconds=self.settings.retention_s)
            try:
                names = await list_expired(
                    self.database, round(before.timestamp() * 1000)
                )
            except Unavailable as error:
                self.outage.note(error)
            else:
                for name in names:
                    self._wake(name)
            await asyncio.sleep(max(1.0, period_s))

    async def _listen(self) -> None:
        backoff = self._make_backoff()
        while True:
            try:
                await self._feed.listen()
            except Exception as error:  # noqa: BLE001 - a driver's; polling goes on meanwhile
                log.debug("listening ended", error=type(error).__name__)
            await backoff.sleep()

    async def _survive(self, run: Callable[[], Awaitable[None]]) -> None:
        # An outage of the database is told once, not by each task with a stack.
        backoff = self._make_backoff()
        while True:
            try:
                return await run()
            except Unavailable as error:
                self.outage.note(error)
                await backoff.sleep()
