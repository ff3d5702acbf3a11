"""`gateway.ports.Backend` over a database, a launcher and the proxy's routes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final
from uuid import uuid4

import structlog
from aiohttp import web

from backends.database.actions import Change
from backends.database.config import DBBackendBase
from backends.database.keyring import hash_token
from backends.database.launcher import Launcher
from backends.database.logs import read_lines
from backends.database.lookups import (
    list_events,
    list_live,
    list_usage,
    read_version,
)
from backends.database.records import (
    ClusterRecord,
    ClusterSpec,
    Snapshot,
)
from backends.database.reported import build_cluster, build_workers
from backends.database.requests import (
    build_reply,
    find_due,
    request_adapt,
    request_end_adaptive,
    request_scale,
    request_stop,
    take_report,
)
from backends.database.routes import Routes
from backends.database.runtime import Runtime
from backends.database.startup import connect, make_runtime
from backends.database.store import Holdings, NewCluster
from gateway.aio.budget import Budget
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import (
    Cluster,
    ClusterEvent,
    PublicStatus,
    StopReason,
    Worker,
)
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.domain.policy import Share, Usage, check_create
from gateway.domain.scaling import AdaptOutcome, ScaleOutcome
from gateway.domain.sync import SyncReply, SyncReport
from gateway.domain.user import User
from gateway.ports import Clock, LogQuery

log = structlog.get_logger(__name__)

_ACTIVE: Final = tuple(status for status in PublicStatus if status.is_active)
_SHUTDOWN_LOOK_S: Final = 0.2


class DatabaseBackend(DBBackendBase):
    """Keeps clusters in a database and runs them by a launcher.

    Derived classes say by which one: `make_launcher` and `make_routes`.
    """

    clock: Clock = SystemClock()

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        super().__init__(**kwargs)
        self._runtime: Runtime | None = None
        self._launcher: Launcher | None = None
        self._routes: Routes | None = None
        self._is_ready = False

    def make_launcher(self) -> Launcher:
        """Return what runs the jobs, not yet set up."""
        raise NotImplementedError

    def make_routes(self) -> Routes:
        """Return the proxy's table, not yet set up."""
        raise NotImplementedError

    def make_cluster_name(self) -> str:
        """Return a name that no cluster has had before."""
        return uuid4().hex

    async def setup(self, app: web.Application) -> None:  # noqa: ARG002 - the port's signature
        """Connect to the store, start or adopt the proxy, start reconciling.

        Raises
        ------
        ConfigError
            If a setting, a key or the machine does not allow it.
        Unavailable
            If the database does not answer within half a minute.
        """
        launcher, routes = self.make_launcher(), self.make_routes()
        # In a thread: keys and paths are read.
        runtime = await asyncio.to_thread(
            make_runtime, self, launcher, routes, self.clock
        )
        self._runtime, self._launcher, self._routes = runtime, launcher, routes
        try:
            await connect(runtime)
            await launcher.setup()
            await routes.setup()
            await runtime.start()
        except BaseException:
            await self._release()
            raise
        self._is_ready = True

    async def cleanup(self) -> None:
        """Stop reconciling; clusters go on running, unless they are to end."""
        runtime = self._runtime
        if runtime is None:
            return
        if self.stop_clusters_on_shutdown or runtime.database.is_in_memory:
            await self._stop_all(runtime)
        self._is_ready = False
        await self._release()

    async def check_ready(self) -> None:
        """Return if the database answers and its clusters are known."""
        if not self._is_ready:
            raise Unavailable("the gateway is starting")
        await read_version(self._run.database, "")

    async def start_cluster(
        self, user: User, cluster_options: Mapping[str, Any]
    ) -> str:
        """Accept a new cluster and return its name; it is not running yet."""
        options, config = await self.process_cluster_options(user, cluster_options)
        run = self._run
        name = self.make_cluster_name()
        now_ms = self._now_ms()
        credentials = await run.keyring.make(name)
        spec = ClusterSpec(
            groups=tuple(sorted(user.groups)),
            options=options,
            config=config.resolve(),
            api_url=self.api_url,
        )
        new = NewCluster(
            record=ClusterRecord(0, name, user.name, now_ms),
            spec=spec,
            token_hash=hash_token(credentials.token),
            credentials=run.keyring.seal(credentials),
            memberships=_list_memberships(user),
        )

        def check(holdings: Holdings) -> None:
            check_create(spec.shape, holdings)

        await run.store.create(new, self.policy.shares(user), check)
        log.info("cluster accepted", cluster=name, user=user.name)
        return name

    async def list_clusters(
        self,
        username: str | None = None,
        statuses: Iterable[PublicStatus] | None = None,
    ) -> Sequence[Cluster]:
        """Return clusters of ``username`` (all if ``None``), oldest first."""
        run = self._run
        wanted = frozenset(_ACTIVE if statuses is None else statuses)

        async def read() -> tuple[Cluster, ...]:
            heads = await run.store.list_heads(username, wanted)
            return tuple(build_cluster(head) for head in heads)

        return await run.lists.get((username, wanted), read)

    async def get_cluster(self, name: str) -> Cluster:
        """Return one cluster, with its credentials while it is RUNNING."""
        return await self._run.answers.get(name, lambda: self._read_cluster(name))

    async def wait_for_change(self, name: str, version: int, timeout_s: float) -> None:
        """Return once the cluster's version may have passed ``version``."""
        run = self._run

        async def has_passed() -> bool:
            current = await read_version(run.database, name)
            return current is None or current > version

        await run.waiters.wait(name, has_passed, timeout_s)

    async def stop_cluster(
        self, name: str, *, reason: StopReason = StopReason.USER, message: str = ""
    ) -> None:
        """Accept a stop; nothing happens if it has stopped or was asked to."""
        now_ms = self._now_ms()
        is_asked = await self._change(
            name, lambda now: request_stop(now, reason, message, now_ms)
        )
        if is_asked:
            log.info("stop accepted", cluster=name, reason=reason)

    async def scale_cluster(self, name: str, replicas: int) -> ScaleOutcome:
        """Accept a wanted number of workers, ending adaptive mode."""

        def decide(now: Snapshot, others: Holdings) -> tuple[Change, ScaleOutcome]:
            return request_scale(now, replicas, others, now_ms=self._now_ms())

        shares = await self._find_shares(name)
        _, outcome = await self._run.store.change(name, decide, shares=shares)
        log.info("scale accepted", cluster=name, replicas=outcome.replicas)
        return outcome

    async def adapt_cluster(
        self, name: str, minimum: int | None, maximum: int | None
    ) -> AdaptOutcome:
        """Accept adaptive bounds, under a new adaptive id."""
        adaptive_id = uuid4().hex

        def decide(now: Snapshot, others: Holdings) -> tuple[Change, AdaptOutcome]:
            return request_adapt(
                now,
                (minimum, maximum),
                others,
                default=self.adaptive_maximum,
                adaptive_id=adaptive_id,
                now_ms=self._now_ms(),
            )

        shares = await self._find_shares(name)
        _, outcome = await self._run.store.change(name, decide, shares=shares)
        log.info("adapt accepted", cluster=name, maximum=outcome.maximum)
        return outcome

    async def end_adaptive(self, name: str) -> None:
        """End adaptive mode; the number of workers stays."""
        await self._change(name, request_end_adaptive)

    async def check_token(self, name: str, token: str) -> bool:
        """Return whether ``token`` is the one of cluster ``name``."""
        return await self._run.keyring.check_token(name, token)

    async def sync(self, name: str, report: SyncReport) -> SyncReply:
        """Take a scheduler's report, write what changed, return what is wanted."""
        run = self._run
        now_ms = self._now_ms()
        snapshot = await self._load(name)
        change, beat = take_report(snapshot, report, now_ms)
        due_s = find_due(snapshot, change, beat, now_ms)
        if change is not None:

            def decide(now: Snapshot, _others: Holdings) -> tuple[Change | None, None]:
                return take_report(now, report, now_ms)[0], None

            record, _ = await run.store.change(name, decide, beat=beat)
            return build_reply(record, snapshot.spec, due_s)
        if not snapshot.cluster.phase.is_terminal:
            await run.store.write_beat(snapshot.cluster.id, beat)
        return build_reply(snapshot.cluster, snapshot.spec, due_s)

    async def get_wanted(self, name: str) -> SyncReply:
        """Return what is wanted of a cluster; writes nothing."""
        head = await self._find(name)
        return build_reply(head.cluster, head.spec)

    async def list_events(self, name: str) -> Sequence[ClusterEvent]:
        """Return events of a cluster, oldest first."""
        head = await self._find(name)
        return await list_events(self._run.database, head.cluster.id)

    async def list_workers(self, name: str) -> Sequence[Worker]:
        """Return workers of a cluster by ordinal, ended ones of late included."""
        return build_workers(await self._load(name))

    async def read_logs(self, name: str, query: LogQuery) -> AsyncIterator[str]:
        """Yield log lines without their newline, oldest first."""
        snapshot = await self._load(name)
        async with aclosing(read_lines(self._run.launcher, snapshot, query)) as lines:
            async for line in lines:
                yield line

    async def get_usage(self, user: User) -> Sequence[tuple[Share, Usage]]:
        """Return each capped share of ``user`` with what it holds now."""
        return await list_usage(self._run.database, self.policy.shares(user))

    @property
    def _run(self) -> Runtime:
        if self._runtime is None:
            raise Unavailable("the gateway is starting or ending")
        return self._runtime

    def _now_ms(self) -> int:
        return round(self.clock.now().timestamp() * 1000)

    async def _read_cluster(self, name: str) -> Cluster:
        run = self._run
        head = await self._find(name)
        cluster = build_cluster(head)
        if cluster.status is not PublicStatus.RUNNING:
            return cluster
        client, is_renewed = await run.keyring.open_client(head.cluster)
        if is_renewed:
            # Equal versions mean equal records, and this one has a new key.
            await self._change(name, lambda now: Change(now.cluster))
        return build_cluster(head, client=client)

    async def _load(self, name: str) -> Snapshot:
        snapshot = await self._run.store.load(name)
        if snapshot is None:
            raise ClusterNotFound(name)
        return snapshot

    async def _find(self, name: str) -> Snapshot:
        """Return a cluster without its workers."""
        head = await self._run.store.find(name)
        if head is None:
            raise ClusterNotFound(name)
        return head

    async def _change(
        self, name: str, make: Callable[[Snapshot], Change | None]
    ) -> bool:
        """Write what ``make`` returns; return whether that was anything."""

        def decide(now: Snapshot, _others: Holdings) -> tuple[Change | None, bool]:
            change = make(now)
            return change, change is not None

        _, is_changed = await self._run.store.change(name, decide)
        return is_changed

    async def _find_shares(self, name: str) -> tuple[Share, ...]:
        head = await self._find(name)
        # The owner's, whoever asks: an admin's request counts for the owner too.
        owner = User(head.cluster.owner, head.spec.groups)
        return self.policy.shares(owner)

    async def _stop_all(self, runtime: Runtime) -> None:
        text = "the gateway ends"
        budget = Budget(self.shutdown_timeout)
        try:
            for name in await list_live(runtime.database):
                with suppress(ClusterNotFound):
                    await self.stop_cluster(name, reason=StopReason.ADMIN, message=text)
            while left := await list_live(runtime.database):
                if budget.is_over():
                    log.warning("clusters still stopping", clusters=len(left))
                    return
                await asyncio.sleep(_SHUTDOWN_LOOK_S)
        except Unavailable as error:
            log.warning("clusters not stopped", error=str(error))

    async def _release(self) -> None:
        runtime, launcher, routes = self._runtime, self._launcher, self._routes
        self._runtime = self._launcher = self._routes = None
        if runtime is not None:
            await runtime.stop()
        if routes is not None:
            await routes.cleanup()
        if launcher is not None:
            await launcher.cleanup()
        if runtime is not None:
            await runtime.close()


def _list_memberships(user: User) -> tuple[str, ...]:
    # All of them, capped or not: caps may be set while the cluster lives.
    return (f"user:{user.name}", *(f"group:{group}" for group in sorted(user.groups)))
