"""Answers that are kept, so that the same question is answered by the same object.

What is made of an answer, such as its JSON, can then be kept by it.
"""

from collections.abc import Iterator
from typing import Final

from backends.kubernetes.backend.reported import build_cluster
from backends.kubernetes.backend.store import ClusterStore
from backends.kubernetes.crd.values import DaskCluster
from gateway.aio.limits import ExpiringMap
from gateway.domain.cluster import Cluster, PublicStatus
from gateway.domain.credentials import KeyPair

_MOST: Final = 20_000
_MOST_WITH_KEYS: Final = 10_000
_MOST_LISTS: Final = 256

_ListKey = tuple[str | None, frozenset[PublicStatus]]


class Answers:
    """Keeps clusters as the API reports them, and lists of them."""

    def __init__(self) -> None:
        self._plain: ExpiringMap[str, Cluster] = ExpiringMap(_MOST)
        self._full: ExpiringMap[str, Cluster] = ExpiringMap(_MOST_WITH_KEYS)
        self._lists: ExpiringMap[_ListKey, tuple[int, tuple[Cluster, ...]]] = (
            ExpiringMap(_MOST_LISTS)
        )

    def build(self, cluster: DaskCluster, client: KeyPair | None = None) -> Cluster:
        """Return ``cluster`` as the API reports it."""
        kept = self._plain if client is None else self._full
        found = kept.get(cluster.uid)
        version = int(cluster.resource_version)
        if found is None or found.version != version or found.client is not client:
            found = build_cluster(cluster, client=client)
            kept.put(cluster.uid, found)
        return found

    def list_clusters(
        self, store: ClusterStore, owner: str | None, wanted: frozenset[PublicStatus]
    ) -> tuple[Cluster, ...]:
        """Return the clusters of ``owner`` in a wanted status, oldest first."""
        key, epoch = (owner, wanted), store.epoch_of(owner)
        kept = self._lists.get(key)
        if kept is not None and kept[0] == epoch:
            return kept[1]
        found = tuple(sorted(self._select(store, owner, wanted), key=_rank))
        self._lists.put(key, (epoch, found))
        return found

    def _select(
        self, store: ClusterStore, owner: str | None, wanted: frozenset[PublicStatus]
    ) -> Iterator[Cluster]:
        for cluster in store.list_of(owner):
            answer = self.build(cluster)
            if answer.status in wanted:
                yield answer


def _rank(cluster: Cluster) -> tuple[int, str]:
    return cluster.start_ms, cluster.name
