"""One DaskCluster, its pods and its anchor on an API server; and controllers of it.

The server checks names and preconditions and keeps every version and an audit log.
A controller sees it through caches that lag as far as a test lets them, and runs
the real planner a step at a time, so that a test can lose any request or reply.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import (
    ClusterSpec,
    ClusterStatus,
    DaskCluster,
    Owner,
    WorkersSpec,
)
from backends.kubernetes.names import Child, format_anchor_name, format_scheduler_name
from backends.kubernetes.observed.overlay import Overlay
from backends.kubernetes.observed.pods import PodView, parse_pod
from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.observed.worker_set import WorkerSet, parse_worker_set
from backends.kubernetes.planning.actions import (
    Action,
    AskWhy,
    CreateChild,
    CreateWorker,
    DeleteAnchor,
    DeleteCluster,
    DeletePod,
    KeepLogTail,
    LookUp,
    Plan,
    StopCluster,
)
from backends.kubernetes.planning.inputs import Desired, Observed, Refusal, RefusalKind
from backends.kubernetes.planning.plan import plan
from gateway.domain.cluster import ClusterPhase
from gateway.domain.names import format_worker_name, parse_worker_ordinal
from tests.support.kube_pods import NOW, RUNNING, a_pod, a_scheduler, scheduled

ALL = 10**6
READY = {
    **RUNNING,
    "conditions": [scheduled(), {"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "dask-scheduler", "state": {"running": {}}}],
}


class Conflict(Exception):
    """409: another uid or resourceVersion."""


class Refused(Exception):
    """The server refuses a create; ``refusal`` is what a controller makes of it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


@dataclass(frozen=True)
class Created:
    pod: PodView
    by_epoch: int
    was_member: bool


@dataclass(frozen=True)
class Deleted:
    before: PodView


@dataclass(frozen=True)
class Stored:
    before: WorkerSet
    after: WorkerSet
    left: dict[int | None, str | None]
    by_epoch: int


Entry = Created | Deleted | Stored


class FakeServer:
    """Checks names and preconditions, and keeps all versions and an audit log."""

    def __init__(self, spec: ClusterSpec | None = None) -> None:
        self._versions = count(2)
        spec = spec or ClusterSpec(owner=Owner(user="alice"), target_namespace="team")
        self.clusters: list[DaskCluster | None] = [
            DaskCluster(
                name="c",
                namespace="gateway",
                uid="uc",
                resource_version="1",
                generation=1,
                created=NOW,
                spec=spec,
            )
        ]
        self.pods: dict[str, dict[str, Any]] = {}
        self.pod_events: list[tuple[int, str, dict[str, Any] | None]] = []
        self.services: list[ServiceView | None] = [None]
        self.audit: list[Entry] = []
        self.refusal: Refusal | None = None
        self.most_pods = ALL

    @property
    def cluster(self) -> DaskCluster:
        cluster = self.clusters[-1]
        assert cluster is not None
        return cluster

    @property
    def wanted(self) -> int:
        return self.cluster.wanted_workers

    @property
    def worker_set(self) -> WorkerSet:
        return parse_worker_set(self.cluster.status.workers) or WorkerSet()

    def views(self) -> list[PodView]:
        """Return the worker pods."""
        views = map(parse_pod, self.pods.values())
        return [view for view in views if not view.is_scheduler]

    def live(self) -> list[PodView]:
        return [pod for pod in self.views() if pod.state.is_live]

    def change(self, **spec: Any) -> None:
        """Change the spec as a person does."""
        changed = msgspec.structs.replace(self.cluster.spec, **spec)
        self._write_cluster(spec=changed, generation=self.cluster.generation + 1)

    def scale(self, replicas: int) -> None:
        self.change(workers=WorkersSpec(replicas=replicas))

    def stop(self, reason: str, message: str = "") -> None:
        self._write_cluster(
            spec=msgspec.structs.replace(self.cluster.spec, active=False),
            stop_reason=reason,
            stop_message=message,
        )

    def report(self, **status: Any) -> None:
        """Write fields of the status as the API server does."""
        changed = msgspec.structs.replace(self.cluster.status, **status)
        self._write_cluster(status=changed)

    def store(
        self,
        status: ClusterStatus,
        version: str,
        shown: dict[int | None, str],
        *,
        by_epoch: int,
    ) -> None:
        """Take a compare-and-set of the status."""
        if version != self.cluster.resource_version:
            raise Conflict
        before = self.worker_set
        after = parse_worker_set(status.workers) or WorkerSet()
        left = {n: shown.get(n) for n in before.members - after.members}
        self.audit.append(Stored(before, after, left, by_epoch))
        if status != self.cluster.status:
            self._write_cluster(status=status)

    def delete_cluster(self) -> None:
        next(self._versions)
        self.clusters.append(None)

    def create_service(self) -> ServiceView:
        existing = self.services[-1]
        if existing is not None:
            return existing
        made = ServiceView(
            namespace="team",
            name=format_anchor_name("c"),
            uid=f"anchor{next(self._versions)}",
            resource_version=str(next(self._versions)),
            cluster="c",
            cluster_uid=self.cluster.uid,
        )
        self.services.append(made)
        return made

    def delete_service(self, uid: str) -> None:
        """Delete the anchor; what it owns goes with `collect`."""
        service = self.services[-1]
        if service is None:
            return
        if service.uid != uid:
            raise Conflict
        self.services.append(None)

    def collect(self) -> None:
        """Take pods whose owner is gone, as the garbage collector does."""
        service = self.services[-1]
        for name, pod in list(self.pods.items()):
            if service is None or parse_pod(pod).owner_uid != service.uid:
                self.terminate(name)
                self.pods.pop(name, None)
                self.pod_events.append((next(self._versions), name, None))

    def create(
        self, name: str, *, by_epoch: int, owner: str = ""
    ) -> dict[str, Any] | None:
        """Create a pod; ``None`` if the name is taken."""
        if name in self.pods:
            return None
        if self.refusal is not None and len(self.pods) >= self.most_pods:
            raise Refused(self.refusal)
        service = self.services[-1]
        owner = owner or (service.uid if service is not None else "none")
        uid = f"u{next(self._versions)}"
        ordinal = parse_worker_ordinal("c", name)
        if ordinal is None:
            return self._write_pod(a_scheduler(uid=uid, owner=owner))
        pod = self._write_pod(a_pod(ordinal, uid=uid, owner=owner))
        was_member = ordinal in self.worker_set.members
        self.audit.append(Created(parse_pod(pod), by_epoch, was_member))
        return pod

    def delete(
        self, name: str, uid: str, resource_version: str | None
    ) -> dict[str, Any] | None:
        pod = self.pods.get(name)
        if pod is None:
            return None
        view = parse_pod(pod)
        if view.uid != uid or resource_version not in (None, view.resource_version):
            raise Conflict
        self.audit.append(Deleted(view))
        return self.terminate(name)

    def terminate(self, name: str) -> dict[str, Any]:
        """Take a pod back: a pending one goes at once, the others in time."""
        pod = self.pods[name]
        was = parse_pod(pod).state
        if was is PodState.TERMINATING:
            return pod
        doomed = self._write_pod(pod, deletionTimestamp="now")
        if was is PodState.PENDING:
            self.remove(name)
        return doomed

    def remove(self, name: str) -> None:
        self.pods.pop(name)
        self.pod_events.append((next(self._versions), name, None))

    def set_status(self, name: str, status: dict[str, Any]) -> None:
        self._write_pod({**self.pods[name], "status": status})

    def _write_pod(self, pod: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        version = next(self._versions)
        metadata = {**pod["metadata"], **metadata, "resourceVersion": str(version)}
        pod = {**pod, "metadata": metadata}
        self.pods[metadata["name"]] = pod
        self.pod_events.append((version, metadata["name"], pod))
        return pod

    def _write_cluster(self, **changes: Any) -> None:
        version = str(next(self._versions))
        self.clusters.append(
            msgspec.structs.replace(self.cluster, resource_version=version, **changes)
        )


@dataclass
class Memory:
    """What one controller process knows besides its caches."""

    made: set[Child] = field(default_factory=set)
    absent: set[Child] = field(default_factory=set)
    refusals: dict[Child, Refusal] = field(default_factory=dict)
    worker_refusal: Refusal | None = None
    log_tails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    anchor_uid: str = "none"


class Controller:
    """Fresh caches at first; each request waits once on its way, once on return."""

    def __init__(
        self,
        server: FakeServer,
        *,
        epoch: int = 1,
        use_overlay: bool = True,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.server = server
        self.epoch = epoch
        self.lifetimes = lifetimes or Lifetimes()
        self.overlay: Overlay[PodView] | None = Overlay() if use_overlay else None
        self.memory = Memory()
        self.now: datetime = NOW
        self.route_proved = False
        self.log: tuple[str, ...] = ("last line",)
        self.plans: list[Plan] = []
        self._round: Iterator[None] | None = None
        self._list()
        self._cluster = len(server.clusters) - 1
        self._service = len(server.services) - 1

    @property
    def is_busy(self) -> bool:
        return self._round is not None

    def receive(
        self, pods: int = ALL, versions: int = ALL, *, services: int = ALL
    ) -> None:
        """Let that many events reach the caches; ``ALL`` is a new list."""
        if pods == ALL:
            self._list()
            self._reached(max((v for v, _, _ in self.server.pod_events), default=0))
        for version, name, pod in self.server.pod_events[self._seen :][:pods]:
            self._cache.pop(name, None)
            if pod is not None:
                self._cache[name] = pod
            self._reached(version)
            self._seen += 1
        newest = len(self.server.clusters) - 1
        self._cluster = min(self._cluster + versions, newest)
        newest = len(self.server.services) - 1
        self._service = min(self._service + services, newest)

    def advance(self) -> None:
        """Run up to the next wait; begin a round if none is under way."""
        if self._round is None:
            self._round = self._reconcile()
        if next(self._round, ALL) is ALL:
            self._round = None

    def run(self) -> None:
        """Finish the round under way, then run one from start to end."""
        while self.is_busy:
            self.advance()
        self.advance()
        while self.is_busy:
            self.advance()

    def lose_round(self) -> None:
        """End the round where it is: a request may or may not have landed."""
        self._round = None

    def observe(self) -> tuple[Desired, Observed] | None:
        cluster = self.server.clusters[self._cluster]
        if cluster is None:
            return None
        views = self._pods()
        schedulers = [v for v in views if v.is_scheduler]
        memory = self.memory
        return Desired(cluster, self.lifetimes), Observed(
            epoch=self.epoch,
            anchor=self.server.services[self._service],
            scheduler=schedulers[0] if schedulers else None,
            workers=tuple(v for v in views if not v.is_scheduler),
            made=frozenset(memory.made),
            absent=self._take_absent(),
            refusals=dict(memory.refusals),
            worker_refusal=memory.worker_refusal,
            log_tails=dict(memory.log_tails),
            asked=dict(memory.asked),
            route_proved=self.route_proved,
        )

    def _take_absent(self) -> frozenset[Child]:
        # A live look counts for the plan that asked for it, and for no other.
        absent = frozenset(self.memory.absent)
        self.memory.absent.clear()
        return absent

    def _reconcile(self) -> Iterator[None]:
        state = self.observe()
        if state is None:
            return
        desired, observed = state
        step = plan(desired, observed, self.now)
        self.plans.append(step)
        shown = {pod.ordinal: pod.uid for pod in observed.workers}
        version = desired.cluster.resource_version
        try:
            if step.stores_first:
                yield
                self.server.store(step.status, version, shown, by_epoch=self.epoch)
                yield
            for action in step.actions:
                yield
                self._act(action)
                yield
            if not step.stores_first and step.status != desired.cluster.status:
                yield
                self.server.store(step.status, version, shown, by_epoch=self.epoch)
                yield
        except (Conflict, Refused):
            return

    def _act(self, action: Action) -> None:
        server, memory = self.server, self.memory
        match action:
            case CreateChild(child):
                self._create_child(child)
            case CreateWorker(ordinal):
                self._create_worker(ordinal)
            case DeletePod(name, uid, version):
                self._record(server.delete(name, uid, version))
            case KeepLogTail(_, uid):
                memory.log_tails[uid] = self.log
            case AskWhy(_, uid):
                memory.asked[uid] = self.now
            case LookUp(child):
                self._look_up(child)
            case _:
                self._act_on_the_whole(action)

    def _act_on_the_whole(self, action: Action) -> None:
        match action:
            case DeleteAnchor(uid):
                self.server.delete_service(uid)
            case StopCluster(reason, message):
                self.server.stop(reason, message)
            case DeleteCluster():
                self.server.delete_cluster()

    def _create_child(self, child: Child) -> None:
        if child is Child.ANCHOR:
            self.memory.anchor_uid = self.server.create_service().uid
            if self.overlay is not None:
                self._service = len(self.server.services) - 1
        elif child is Child.SCHEDULER:
            try:
                self._create_scheduler()
            except Refused as refused:
                self.memory.refusals[child] = refused.refusal
                raise
        else:
            self.memory.made.add(child)
        self.memory.refusals.pop(child, None)

    def _create_scheduler(self) -> None:
        name = format_scheduler_name("c")
        shown = self.server.services[self._service]
        owner = shown.uid if shown is not None else self.memory.anchor_uid
        self._record(self.server.create(name, by_epoch=self.epoch, owner=owner))
        view = parse_pod(self.server.pods[name])
        if view.owner_uid != owner or view.state is PodState.TERMINATING:
            busy = RefusalKind.NAME_BUSY
            raise Refused(Refusal(busy, "is going", self.now + timedelta(seconds=1)))

    def _create_worker(self, ordinal: int) -> None:
        try:
            name = format_worker_name("c", ordinal)
            self._record(self.server.create(name, by_epoch=self.epoch))
        except Refused as refused:
            self.memory.worker_refusal = replace(
                refused.refusal, retry_at=max(self.now, refused.refusal.retry_at)
            )
            raise
        self.memory.worker_refusal = None

    def _look_up(self, child: Child) -> None:
        if child is Child.ANCHOR and self.server.services[-1] is not None:
            self._service = len(self.server.services) - 1
        elif (
            child is Child.SCHEDULER and format_scheduler_name("c") in self.server.pods
        ):
            name = format_scheduler_name("c")
            self._cache[name] = self.server.pods[name]
        else:
            self.memory.absent.add(child)

    def _has_scheduler(self) -> bool:
        pod = self.server.pods.get(format_scheduler_name("c"))
        anchor = self.server.services[self._service]
        if pod is None or anchor is None:
            return False
        return parse_pod(pod).owner_uid == anchor.uid

    def _record(self, pod: dict[str, Any] | None) -> None:
        if self.overlay is not None and pod is not None:
            self.overlay.record(parse_pod(pod))

    def _reached(self, version: int) -> None:
        if self.overlay is not None:
            self.overlay.reached(version)

    def _list(self) -> None:
        self._cache = dict(self.server.pods)
        self._seen = len(self.server.pod_events)

    def _pods(self) -> tuple[PodView, ...]:
        views = tuple(parse_pod(raw) for raw in self._cache.values())
        if self.overlay is None:
            return views
        return self.overlay.lay_over(views, cluster="c")


def a_running_server() -> FakeServer:
    """Return a server whose cluster runs, without workers."""
    server = FakeServer()
    owner = server.create_service().uid
    server.create(format_scheduler_name("c"), by_epoch=0)
    server.set_status(format_scheduler_name("c"), READY)
    assert owner
    server.report(
        phase=ClusterPhase.RUNNING,
        scheduler_pod=format_scheduler_name("c"),
        first_sync_time=NOW,
        first_worker_time=NOW,
        start_time=NOW,
    )
    return server
