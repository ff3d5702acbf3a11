"""A backend that keeps everything in memory, and does only what a test tells it.

Implements `gateway.ports.Backend`; nothing starts or stops by itself, except
that a stop is over at once.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from gateway.domain.cluster import (
    Cluster,
    ClusterEvent,
    EventType,
    Limits,
    PublicStatus,
    StopReason,
    Worker,
)
from gateway.domain.credentials import KeyPair
from gateway.domain.errors import ClusterNotFound, ClusterNotRunning, Unavailable
from gateway.domain.options import Options
from gateway.domain.policy import Policy, Shape, Share, Usage, check_create
from gateway.domain.scaling import (
    AdaptOutcome,
    ScaleOutcome,
    clamp_adapt,
    clamp_scale,
    clamp_target,
)
from gateway.domain.sync import Adaptive, SyncReply, SyncReport
from gateway.domain.user import User
from gateway.ports import Clock, LogQuery
from tests.support.builders import KEYS, FakeClock
from tests.support.secrets import remember

_SHAPE = Shape(1, 2**30, 1, 2**30)
_ENDED = (PublicStatus.STOPPED, PublicStatus.FAILED, PublicStatus.STOPPING)


@dataclass
class Entry:
    """One cluster with what the API does not show."""

    cluster: Cluster
    token: str
    client: KeyPair = KEYS
    generation: int = 1
    replicas: int = 0
    adaptive: Adaptive | None = None
    reports: list[SyncReport] = field(default_factory=list)
    events: list[ClusterEvent] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    due_s: float | None = None


class MemoryBackend:
    """See the module.

    Parameters
    ----------
    options
        Offered to everybody.
    policy
        Caps; adaptive clusters count their maximum.
    max_workers
        Cap of each new cluster.
    clock
        For times in records and events.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        policy: Policy | None = None,
        max_workers: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.options = options or Options()
        self.policy = policy or Policy()
        self.max_workers = max_workers
        self.clock = clock or FakeClock()
        self.entries: dict[str, Entry] = {}
        self.calls: list[str] = []
        self.is_ready = True
        self.is_away = False
        self.is_set_up = False
        self._changed = asyncio.Condition()
        self._made = 0

    # What a test does.

    def add(self, cluster: Cluster) -> Entry:
        """Keep ``cluster`` as if it had been created."""
        value = remember(f"tok-{cluster.name}-{'x' * 24}", "a cluster's token")
        entry = Entry(replace(cluster, client=None), value)
        self.entries[cluster.name] = entry
        return entry

    async def change(self, name: str, **changes: Any) -> None:
        """Change a cluster's record, and wake who waits for that."""
        entry = self.entries[name]
        entry.cluster = replace(
            entry.cluster, version=entry.cluster.version + 1, **changes
        )
        await self.wake()

    async def want(self, name: str, **changes: Any) -> None:
        """Change what is wanted of a cluster, and wake who waits for that."""
        entry = self.entries[name]
        for field_name, value in changes.items():
            setattr(entry, field_name, value)
        entry.generation += 1
        await self.change(name)

    async def run(self, name: str) -> None:
        """Let a cluster be RUNNING."""
        await self.change(name, status=PublicStatus.RUNNING, has_dashboard=True)

    async def wake(self) -> None:
        """Wake everybody who waits."""
        async with self._changed:
            self._changed.notify_all()

    # What the port asks for.

    async def setup(self, app: web.Application) -> None:  # noqa: ARG002 - the port's
        self.is_set_up = True

    async def cleanup(self) -> None:
        self.is_set_up = False

    async def check_ready(self) -> None:
        self._note("check_ready")
        if not self.is_ready:
            raise Unavailable("the state is not loaded")

    async def get_cluster_options(self, user: User) -> Options:  # noqa: ARG002 - the port's
        self._note("get_cluster_options")
        return self.options

    async def start_cluster(
        self, user: User, cluster_options: Mapping[str, Any]
    ) -> str:
        self._note("start_cluster")
        options = self.options.parse_options(dict(cluster_options))
        outcome = self.options.get_configuration(options, user)
        if not isinstance(outcome, dict):
            await outcome
        check_create(_SHAPE, await self.get_usage(user))
        self._made += 1
        name = f"m{self._made:05d}"
        self.add(
            Cluster(
                name=name,
                owner=user.name,
                status=PublicStatus.PENDING,
                version=1,
                start_ms=self._now_ms(),
                options=options,
                limits=Limits(self.max_workers),
            )
        )
        return name

    async def list_clusters(
        self,
        username: str | None = None,
        statuses: Iterable[PublicStatus] | None = None,
    ) -> Sequence[Cluster]:
        self._note("list_clusters")
        wanted = None if statuses is None else set(statuses)
        return [
            e.cluster
            for e in self.entries.values()
            if username in {None, e.cluster.owner}
            and (
                e.cluster.status.is_active
                if wanted is None
                else e.cluster.status in wanted
            )
        ]

    async def get_cluster(self, name: str) -> Cluster:
        entry = self._find("get_cluster", name)
        running = entry.cluster.status is PublicStatus.RUNNING
        return replace(entry.cluster, client=entry.client) if running else entry.cluster

    async def wait_for_change(self, name: str, version: int, timeout_s: float) -> None:
        self._note("wait_for_change")

        def has_changed() -> bool:
            entry = self.entries.get(name)
            return self.is_away or entry is None or entry.cluster.version > version

        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(has_changed)
        except TimeoutError:
            pass

    async def stop_cluster(
        self, name: str, *, reason: StopReason = StopReason.USER, message: str = ""
    ) -> None:
        entry = self._find("stop_cluster", name)
        if entry.cluster.status in _ENDED:
            return
        entry.events.append(
            ClusterEvent(self._now_ms(), EventType.NORMAL, reason, message)
        )
        entry.generation += 1
        await self.change(
            name,
            status=PublicStatus.STOPPED,
            stop_ms=self._now_ms(),
            reason=reason,
            message=message,
        )

    async def scale_cluster(self, name: str, replicas: int) -> ScaleOutcome:
        entry = self._find_active("scale_cluster", name)
        outcome = clamp_scale(replicas, entry.cluster.limits.max_workers)
        await self.want(name, replicas=outcome.replicas, adaptive=None)
        return outcome

    async def adapt_cluster(
        self, name: str, minimum: int | None, maximum: int | None
    ) -> AdaptOutcome:
        entry = self._find_active("adapt_cluster", name)
        cap = entry.cluster.limits.max_workers
        outcome = clamp_adapt(minimum, maximum, cap, default=100)
        await self.want(
            name,
            adaptive=Adaptive(
                f"a{entry.generation + 1}", outcome.minimum, outcome.maximum
            ),
            replicas=clamp_target(entry.replicas, outcome.minimum, outcome.maximum),
        )
        return outcome

    async def end_adaptive(self, name: str) -> None:
        entry = self._find_active("end_adaptive", name)
        if entry.adaptive is not None:
            await self.want(name, adaptive=None)

    async def check_token(self, name: str, token: str) -> bool:
        self._note("check_token")
        entry = self.entries.get(name)
        expected = "" if entry is None else entry.token
        return hmac.compare_digest(expected.encode(), token.encode()) and bool(expected)

    async def sync(self, name: str, report: SyncReport) -> SyncReply:
        entry = self._find("sync", name)
        entry.reports.append(report)
        bounds = entry.adaptive
        if bounds and report.adaptive_id == bounds.id and report.target is not None:
            target = clamp_target(report.target, bounds.minimum, bounds.maximum)
            if target != entry.replicas:
                await self.want(name, replicas=target)
        return self._reply(entry)

    async def get_wanted(self, name: str) -> SyncReply:
        return self._reply(self._find("get_wanted", name))

    async def list_events(self, name: str) -> Sequence[ClusterEvent]:
        return list(self._find("list_events", name).events)

    async def list_workers(self, name: str) -> Sequence[Worker]:
        return list(self._find("list_workers", name).workers)

    async def read_logs(self, name: str, query: LogQuery) -> AsyncIterator[str]:
        entry = self._find("read_logs", name)
        source = query.worker or query.component
        sent = max(0, len(entry.logs.get(source, [])) - query.tail)
        while True:
            lines = entry.logs.get(source, [])
            for line in lines[sent:]:
                yield line
            sent = len(lines)
            if not query.follow:
                return
            async with self._changed:
                await self._changed.wait()

    async def get_usage(self, user: User) -> Sequence[tuple[Share, Usage]]:
        self._note("get_usage")
        return [
            (share, self._sum_usage(share.key)) for share in self.policy.shares(user)
        ]

    def _sum_usage(self, key: str) -> Usage:
        # Groups of owners are not kept here; a group's share is its members' own.
        owner = key.partition(":")[2]
        total = Usage()
        for entry in self.entries.values():
            if entry.cluster.owner == owner and entry.cluster.status.is_active:
                bounds = entry.adaptive
                total += _SHAPE.take(bounds.maximum if bounds else entry.replicas)
        return total

    def _reply(self, entry: Entry) -> SyncReply:
        return SyncReply(
            generation=entry.generation,
            replicas=entry.replicas,
            adaptive=entry.adaptive,
            active=entry.cluster.status not in _ENDED,
            due_s=entry.due_s,
        )

    def _find_active(self, call: str, name: str) -> Entry:
        entry = self._find(call, name)
        if entry.cluster.status in _ENDED:
            raise ClusterNotRunning(f"cluster {name} is not running")
        return entry

    def _find(self, call: str, name: str) -> Entry:
        self._note(call)
        entry = self.entries.get(name)
        if entry is None:
            raise ClusterNotFound(name)
        return entry

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if self.is_away:
            raise Unavailable("the store is away")

    def _now_ms(self) -> int:
        return int(self.clock.now().timestamp() * 1000)
