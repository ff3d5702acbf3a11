"""`gateway.ports.Backend` over ``DaskCluster`` objects of the gateway's namespace."""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, TypeVar
from uuid import uuid4

import structlog
from aiohttp import web

from backends.kubernetes.backend.answers import Answers
from backends.kubernetes.backend.config import KubeBackendSettings
from backends.kubernetes.backend.manifests import build_manifest, build_spec
from backends.kubernetes.backend.reported import build_workers
from backends.kubernetes.backend.requests import (
    Change,
    accepts_requests,
    build_reply,
    request_adapt,
    request_end_adaptive,
    request_scale,
    request_stop,
    require_running,
    take_report,
)
from backends.kubernetes.backend.runtime import Runtime, start_runtime
from backends.kubernetes.backend.sharing import (
    Holdings,
    Promise,
    find_shape,
    make_promise,
)
from backends.kubernetes.backend.targets import choose_namespace
from backends.kubernetes.backend.wishes import Wish, WishQueue
from backends.kubernetes.cluster_config import KubeClusterConfig, build_lifetimes
from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import DaskCluster, Owner
from gateway.aio.clock import SystemClock
from gateway.aio.limits import ExpiringMap
from gateway.domain.cluster import (
    Cluster,
    ClusterEvent,
    PublicStatus,
    StopReason,
    Worker,
)
from gateway.domain.errors import (
    ClusterNotFound,
    GatewayError,
    InvariantError,
    Unavailable,
)
from gateway.domain.policy import Share, Usage, check_create
from gateway.domain.scaling import AdaptOutcome, ScaleOutcome
from gateway.domain.sync import SyncReply, SyncReport
from gateway.domain.user import User
from gateway.ports import Clock, LogQuery

log = structlog.get_logger(__name__)

T = TypeVar("T")

_ACTIVE: Final = tuple(status for status in PublicStatus if status.is_active)
# `c` and 20 hexadecimal digits: short enough for pods' names, and never a repeat.
_NAME_BYTES: Final = 10
_MOST_REPORTS: Final = 20_000


class KubeBackend(KubeBackendSettings):
    """Keeps clusters as `DaskCluster` objects; a controller makes their pods."""

    clock: Clock = SystemClock()

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        super().__init__(**kwargs)
        self._stack = AsyncExitStack()
        self._runtime: Runtime | None = None
        self._answers = Answers()
        self._wishes = WishQueue(self._apply, self._find)
        # By uid: what each scheduler has told this process last.
        self._reports: ExpiringMap[str, SyncReport] = ExpiringMap(_MOST_REPORTS)
        self._defaults = Lifetimes()

    def make_cluster_name(self) -> str:
        """Return a name that no cluster has had before."""
        return f"c{secrets.token_hex(_NAME_BYTES)}"

    def make_cluster_object(
        self, username: str, options: Mapping[str, Any], config: KubeClusterConfig
    ) -> dict[str, Any]:
        """Return the ``DaskCluster`` to create, for sites' own classes to change.

        Parameters
        ----------
        username
            Of the owner; the groups are added afterwards.
        options
            As they are stored.
        config
            Its namespace is the target.
        """
        spec = build_spec(Owner(username), options, config.resolve())
        return build_manifest(
            self.make_cluster_name(),
            spec,
            namespace=self._run.namespace,
            instance=self.gateway_instance,
            labels=self.common_labels,
            annotations=self.common_annotations,
            now=self._run.clock.now(),
        )

    async def setup(self, app: web.Application) -> None:
        """Connect to the API server and learn of all clusters.

        Raises
        ------
        ConfigError
            If there is no API server to be found.
        Unavailable
            If it does not answer within half a minute.
        """
        resolved = KubeClusterConfig(parent=self).resolve()
        self._defaults = build_lifetimes(resolved, Lifetimes().retention_seconds)
        try:
            self._runtime = await start_runtime(self, self.clock, self._stack)
        except BaseException:
            await self._stack.aclose()
            raise
        if self._runtime.routes is not None:
            self._runtime.routes.add_to(app)

    async def cleanup(self) -> None:
        """Stop following; clusters go on running."""
        self._runtime = None
        await self._stack.aclose()

    async def check_ready(self) -> None:
        """Return if the API server was heard of late and all clusters are known."""
        self._run.store.check_fresh()

    async def start_cluster(
        self, user: User, cluster_options: Mapping[str, Any]
    ) -> str:
        """Accept a new cluster and return its name; it is not running yet."""
        options, config = await self.process_cluster_options(user, cluster_options)
        if not isinstance(config, KubeClusterConfig):
            raise InvariantError("checked before the start: find_problems")
        config.namespace = choose_namespace(
            config.namespace, user, self.target_namespaces
        )
        run = self._run
        manifest = self.make_cluster_object(user.name, options, config)
        manifest["spec"]["owner"]["groups"] = sorted(user.groups)
        if owner := await run.anchor.find():
            manifest["metadata"]["ownerReferences"] = [owner.format()]
        cluster = await self._create(manifest, self.policy.shares(user))
        await self._give_credentials(cluster)
        log.info("cluster accepted", cluster=cluster.name, user=user.name)
        return cluster.name

    async def list_clusters(
        self,
        username: str | None = None,
        statuses: Iterable[PublicStatus] | None = None,
    ) -> Sequence[Cluster]:
        """Return clusters of ``username`` (all if ``None``), oldest first."""
        wanted = frozenset(_ACTIVE if statuses is None else statuses)
        return self._answers.list_clusters(self._run.store, username, wanted)

    async def get_cluster(self, name: str) -> Cluster:
        """Return one cluster, with its credentials while it is RUNNING."""
        run = self._run
        cluster = await run.store.get(name)
        answer = self._answers.build(cluster)
        if answer.status is not PublicStatus.RUNNING:
            return answer
        return self._answers.build(cluster, await run.keys.find_client(cluster))

    async def wait_for_change(self, name: str, version: int, timeout_s: float) -> None:
        """Return once the cluster's version may have passed ``version``."""
        store = self._run.store

        async def has_passed() -> bool:
            try:
                cluster = await store.get(name)
            except ClusterNotFound:
                return True
            return int(cluster.resource_version) > version

        await store.waiters.wait(name, has_passed, timeout_s)

    async def stop_cluster(
        self, name: str, *, reason: StopReason = StopReason.USER, message: str = ""
    ) -> None:
        """Accept a stop; nothing happens if it has stopped or was asked to."""

        def decide(now: DaskCluster) -> tuple[tuple[Change, ...], bool]:
            changes = request_stop(now, reason, message)
            return changes, bool(changes)

        _, is_asked = await self._run.store.change(name, decide)
        if is_asked:
            log.info("stop accepted", cluster=name, reason=reason)

    async def scale_cluster(self, name: str, replicas: int) -> ScaleOutcome:
        """Accept a wanted number of workers, ending adaptive mode."""
        outcome = await self._wishes.submit(
            name,
            Wish(
                lambda seen, others: request_scale(
                    seen, replicas, others, now=self._run.clock.now()
                ),
                lambda accepted: accepted.replicas,
            ),
        )
        log.info("scale accepted", cluster=name, replicas=outcome.replicas)
        return outcome

    async def adapt_cluster(
        self, name: str, minimum: int | None, maximum: int | None
    ) -> AdaptOutcome:
        """Accept adaptive bounds, under a new adaptive id."""
        adaptive_id = uuid4().hex
        outcome = await self._wishes.submit(
            name,
            Wish(
                lambda seen, others: request_adapt(
                    seen,
                    (minimum, maximum),
                    others,
                    default=self.adaptive_maximum,
                    adaptive_id=adaptive_id,
                    now=self._run.clock.now(),
                ),
                lambda accepted: accepted.maximum,
            ),
        )
        log.info("adapt accepted", cluster=name, maximum=outcome.maximum)
        return outcome

    async def end_adaptive(self, name: str) -> None:
        """End adaptive mode; the number of workers stays."""
        after, _ = await self._run.store.change(
            name, lambda now: (request_end_adaptive(now), None), is_sure=True
        )
        require_running(after)

    async def check_token(self, name: str, token: str) -> bool:
        """Return whether ``token`` is the one of cluster ``name``."""
        run = self._run
        try:
            cluster = await run.store.get(name)
        except ClusterNotFound:
            return False
        return await run.keys.check_token(cluster, token)

    async def sync(self, name: str, report: SyncReport) -> SyncReply:
        """Take a scheduler's report, write what changed, return what is wanted."""
        run = self._run
        now = run.clock.now()
        after, _ = await run.store.change(
            name,
            lambda cluster: (take_report(cluster, report, self._defaults, now), None),
            generation=report.seen,
        )
        self._reports.put(after.uid, report)
        return build_reply(after, report, self._defaults, now)

    async def get_wanted(self, name: str) -> SyncReply:
        """Return what is wanted of a cluster; writes nothing."""
        run = self._run
        cluster = await run.store.get(name)
        return build_reply(cluster, None, self._defaults, run.clock.now())

    async def list_events(self, name: str) -> Sequence[ClusterEvent]:
        """Return events of a cluster, oldest first."""
        run = self._run
        await run.store.get(name)
        return await run.relay.list_events(name)

    async def list_workers(self, name: str) -> Sequence[Worker]:
        """Return workers of a cluster by ordinal, ended ones of late included."""
        run = self._run
        cluster = await run.store.get(name)
        if not accepts_requests(cluster):
            return ()
        pods = await run.relay.list_workers(name)
        return build_workers(cluster, self._reports.get(cluster.uid), pods)

    async def read_logs(self, name: str, query: LogQuery) -> AsyncIterator[str]:
        """Yield log lines without their newline, oldest first."""
        run = self._run
        await run.store.get(name)
        async with aclosing(run.relay.read_logs(name, query)) as lines:
            async for line in lines:
                yield line

    async def get_usage(self, user: User) -> Sequence[tuple[Share, Usage]]:
        """Return each capped share of ``user`` with what it holds now."""
        return self._run.shares.list_holdings(self.policy.shares(user))

    @property
    def _run(self) -> Runtime:
        if self._runtime is None:
            raise Unavailable("the gateway is starting or ending")
        return self._runtime

    async def _create(
        self, manifest: Mapping[str, Any], shares: Sequence[Share]
    ) -> DaskCluster:
        run = self._run
        asked = parse_dask_cluster(manifest)
        shape = find_shape(asked)

        def promise(others: Holdings) -> tuple[Promise, None]:
            check_create(shape, others)
            return self._promise(asked, asked.wanted_workers), None

        await run.shares.promise(asked.name, shares, promise)
        try:
            return await run.store.create(manifest)
        except Unavailable:
            # It may have been created: what was promised then holds.
            raise
        except GatewayError:
            await run.shares.withdraw(asked.name, shares)
            raise

    async def _give_credentials(self, cluster: DaskCluster) -> None:
        """Make a new cluster's credentials, or leave it to the controller.

        The cluster is accepted already. Where the API server goes away just now,
        the controller makes what is missing.
        """
        try:
            await self._run.keys.ensure(cluster)
        except GatewayError as error:
            log.warning(
                "credentials left to the controller",
                cluster=cluster.name,
                error=str(error),
            )

    async def _find(self, name: str) -> DaskCluster:
        return await self._run.store.get(name)

    async def _apply(self, name: str, wish: Wish[T]) -> T:
        """Promise what a wish takes of capped shares, and write it."""
        run = self._run
        cluster = await run.store.get(name)
        # The owner's, whoever asks: an admin's request counts for the owner too.
        owner = User(cluster.spec.owner.user, groups=cluster.spec.owner.groups)

        def promise(others: Holdings) -> tuple[Promise, Holdings]:
            now = run.store.find(name) or cluster
            most = wish.find_most(wish.decide(now, others)[1])
            return self._promise(now, most), others

        shares = self.policy.shares(owner)
        others = await run.shares.promise(name, shares, promise)
        after, outcome = await run.store.change(
            name, lambda now: wish.decide(now, others)
        )
        # The answer is the truth, however old what we knew was.
        require_running(after)
        return outcome

    def _promise(self, cluster: DaskCluster, workers: int) -> Promise:
        now_ms = round(self._run.clock.now().timestamp() * 1000)
        return make_promise(find_shape(cluster), workers, now_ms)
