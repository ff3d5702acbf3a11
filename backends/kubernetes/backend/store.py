"""The clusters of this gateway: a cache that follows the API server, and writes.

Reads are of the cache, with our own writes laid over it. A name that it lacks is
asked for at the API server, since another replica may have made it just now.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    StaleWrite,
)
from backends.kubernetes.api.informer import STALE_S, Informer, Scope
from backends.kubernetes.api.resources import CLUSTERS
from backends.kubernetes.api.views import Cache
from backends.kubernetes.backend.calls import PatientCalls
from backends.kubernetes.backend.refusals import translate_refusal
from backends.kubernetes.backend.requests import Change
from backends.kubernetes.crd.formatting import format_precondition, join_patches
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import is_object_name
from gateway.aio.backoff import Backoff
from gateway.aio.limits import ExpiringMap
from gateway.aio.tasks import Supervisor
from gateway.aio.waiters import Waiters
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.ports import Clock

T = TypeVar("T")

Decide = Callable[[DaskCluster], tuple[tuple[Change, ...], T]]

# A cluster's status may be written many times in a second while it starts.
_TRIES: Final = 12
_BACKOFF: Final = (0.01, 0.5)
# Whoever asks for names that do not exist must not make the API server pay for it.
_ABSENT_S: Final = 0.5
_MOST_ABSENT: Final = 10_000
_MOST_READS: Final = 16
# What the schema does not know is told, instead of dropped.
_STRICT: Final = {"fieldValidation": "Strict"}


class ClusterStore:
    """Reads and writes `DaskCluster` objects in the client's namespace.

    Parameters
    ----------
    client
        Makes the calls.
    calls
        Bounds them.
    clock
        For the age of what is known.

    Notes
    -----
    All of the namespace's are ours, as for the controller: those made by kubectl
    have none of our labels.
    """

    def __init__(self, client: KubeClient, calls: PatientCalls, clock: Clock) -> None:
        self.waiters = Waiters()
        # Called after each change of any cluster; must not raise.
        self.listeners: list[Callable[[], None]] = []
        self._client = client
        self._calls = calls
        self._informer: Informer[DaskCluster] = Informer(
            client,
            Scope(CLUSTERS, client.namespace),
            decode=parse_dask_cluster,
            on_change=self._note,
            clock=clock,
        )
        self._names: dict[str, set[str]] = {}
        self._owners: dict[str, str] = {}
        self._epochs: dict[str | None, int] = {}
        self._ticks = count(1)
        self._absent: ExpiringMap[str, bool] = ExpiringMap(
            _MOST_ABSENT, _ABSENT_S, monotonic=clock.monotonic
        )
        self._reads = asyncio.Semaphore(_MOST_READS)

    @property
    def cache(self) -> Cache[DaskCluster]:
        """All clusters, as far as they are known."""
        return self._informer.cache

    @property
    def is_synced(self) -> bool:
        """Whether all clusters were known at some time."""
        return self._informer.is_synced

    def start(self, tasks: Supervisor) -> None:
        """Follow the API server until ``tasks`` end."""
        tasks.start("informer daskclusters", self._informer.run)

    async def wait_synced(self) -> None:
        """Return once all clusters are known."""
        await self._informer.synced.wait()

    def check_fresh(self) -> None:
        """Return if the API server has said something of late.

        Raises
        ------
        Unavailable
            If not all clusters are known, or nothing was heard for `STALE_S`.
        """
        if not self._informer.is_synced:
            raise Unavailable("no list of clusters yet")
        if self._informer.age_s > STALE_S:
            raise Unavailable(f"no word of clusters for {self._informer.age_s:.0f} s")

    def epoch_of(self, owner: str | None) -> int:
        """Return a number that differs after each change of ``owner``'s clusters.

        ``None`` is everybody; 0 is: there are none.
        """
        return self._epochs.get(owner, 0)

    def find(self, name: str) -> DaskCluster | None:
        """Return a cluster as far as it is known here; makes no call."""
        return next(iter(self._informer.cache.of_cluster(name)), None)

    def list_of(self, owner: str | None) -> Iterator[DaskCluster]:
        """Yield the clusters of ``owner`` that are known, of everybody if ``None``."""
        names = self._owners if owner is None else self._names.get(owner, ())
        for name in tuple(names):
            cluster = self.find(name)
            if cluster is None:
                self._forget(name)  # it went before the cache ever had it
            else:
                yield cluster

    async def get(self, name: str, *, generation: int = 0) -> DaskCluster:
        """Return a cluster, of the API server's if the cache is not so far.

        Parameters
        ----------
        generation
            At least this one, if the API server has it.

        Raises
        ------
        ClusterNotFound
            If there is none.
        Unavailable
            If the API server has to be asked and does not answer in time.
        """
        cluster = self.find(name)
        if cluster is not None and cluster.generation >= generation:
            return cluster
        if cluster is None and self._absent.get(name):
            raise ClusterNotFound(name)
        return await self.read(name)

    async def read(self, name: str) -> DaskCluster:
        """Return a cluster as the API server has it; raises as `get`."""
        if not is_object_name(name):
            raise ClusterNotFound(name)
        place = self._client.namespace
        try:
            async with self._reads:
                raw = await self._calls.make(
                    lambda: self._client.get(CLUSTERS, name, namespace=place)
                )
        except NotFound as error:
            self._absent.put(name, value=True)
            raise ClusterNotFound(name) from error
        except KubeError as error:
            raise translate_refusal(error) from error
        return self._record(raw)

    async def create(self, manifest: Mapping[str, Any]) -> DaskCluster:
        """Create a cluster of a name that is nobody else's.

        Raises
        ------
        InvalidRequest, Rejected
            As the API server refused it.
        Unavailable
            If it does not answer in time; the cluster may be there all the same.
        """
        place, name = self._client.namespace, manifest["metadata"]["name"]
        try:
            raw = await self._calls.make(
                lambda: self._client.create(
                    CLUSTERS, manifest, namespace=place, query=_STRICT
                )
            )
        except AlreadyExists:
            # The answer to an earlier try was lost.
            return await self.read(name)
        except KubeError as error:
            raise translate_refusal(error) from error
        return self._record(raw)

    async def change(
        self,
        name: str,
        decide: Decide[T],
        *,
        generation: int = 0,
        is_sure: bool = False,
    ) -> tuple[DaskCluster, T]:
        """Write what ``decide`` makes of a cluster, and return it and its outcome.

        Parameters
        ----------
        decide
            Returns the writes, none if nothing is to change. Called again with
            what is there if somebody else was faster.
        generation
            As for `get`.
        is_sure
            Do nothing only if the API server itself says that nothing is to do.

        Raises
        ------
        ClusterNotFound, InvalidRequest, Rejected, Unavailable
            As the API server refused, and whatever ``decide`` raises.
        """
        cluster = await self.get(name, generation=generation)
        backoff = Backoff(*_BACKOFF)
        for _ in range(_TRIES):
            changes, outcome = decide(cluster)
            if is_sure and not changes:
                cluster, is_sure = await self.read(name), False
                continue
            try:
                for change in changes:
                    cluster = await self._write(cluster, change)
            except StaleWrite:
                cluster = await self.read(name)
                await backoff.sleep()
            else:
                return cluster, outcome
        raise Unavailable(f"cluster {name} is changed too often by others")

    async def _write(self, cluster: DaskCluster, change: Change) -> DaskCluster:
        version = cluster.resource_version if change.is_exact else None
        patch = join_patches([format_precondition(cluster.uid, version), change.patch])
        try:
            raw = await self._calls.make(
                lambda: self._client.patch(
                    CLUSTERS,
                    cluster.name,
                    patch,
                    namespace=cluster.namespace,
                    subresource="status" if change.is_status else "",
                )
            )
        except StaleWrite:
            raise
        except NotFound as error:
            raise ClusterNotFound(cluster.name) from error
        except KubeError as error:
            raise translate_refusal(error) from error
        return self._record(raw)

    def _record(self, raw: bytes) -> DaskCluster:
        """Take the API server's answer; readers see it at once."""
        cluster = parse_dask_cluster(raw)
        self._informer.cache.record(cluster)
        self._note(cluster)
        return cluster

    def _note(self, cluster: DaskCluster) -> None:
        """Take note that something of a cluster has changed."""
        name, owner = cluster.name, cluster.spec.owner.user
        if self.find(name) is None:
            self._forget(name)
        else:
            self._absent.pop(name)
            if self._owners.get(name) != owner:
                self._forget(name)
                self._owners[name] = owner
                self._names.setdefault(owner, set()).add(name)
        self._count(owner)
        self.waiters.ring(name)
        for listener in self.listeners:
            listener()

    def _forget(self, name: str) -> None:
        owner = self._owners.pop(name, None)
        if owner is None:
            return
        names = self._names[owner]
        names.discard(name)
        if not names:
            del self._names[owner]
        self._count(owner)

    def _count(self, owner: str) -> None:
        self._epochs[None] = tick = next(self._ticks)
        if owner in self._names:
            self._epochs[owner] = tick
        else:
            # Who has no clusters any more takes no room; 0 means just that.
            self._epochs.pop(owner, None)
