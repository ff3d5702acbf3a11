"""Clusters as they go over the wire."""

from collections.abc import Sequence

import msgspec
from aiohttp import web

from gateway.aio.limits import ExpiringMap
from gateway.domain.cluster import Cluster, PublicStatus
from gateway.domain.user import User
from gateway.http.links import DashboardLinks
from gateway.http.replies import encode
from gateway.http.schemas import ClusterRecord

# Some 10 MB at 600 bytes each.
_MAX_CACHED = 16_384
# Of whole lists, each of up to some hundred records.
_MAX_LISTS = 128
# Of records with keys, some 2.5 KB each.
_MAX_ONES = 2048

_CacheKey = tuple[str, int, int, str, bool]
_TextKey = tuple[int, int, str, bool]


class Records:
    """Makes records, and keeps those of lists as JSON while they are equal.

    Parameters
    ----------
    links
        Makes `ClusterRecord.dashboard_route`.
    """

    def __init__(self, links: DashboardLinks) -> None:
        self._links = links
        self._cache = ExpiringMap[_CacheKey, bytes](_MAX_CACHED)
        self._lists = ExpiringMap[_TextKey, tuple[object, bytes]](_MAX_LISTS)
        self._ones = ExpiringMap[_TextKey, tuple[object, bytes]](_MAX_ONES)

    def encode_one(self, cluster: Cluster, viewer: User) -> bytes:
        """Return a record as JSON; with the keys, if the cluster is the viewer's.

        A backend that has nothing new returns the very same object, and so the
        same text is returned for it.
        """
        key = _make_key(cluster, viewer, self._links.epoch)
        found = self._ones.get(key)
        if found is None:
            found = (cluster, encode(self._build(cluster, viewer)))
            self._ones.put(key, found)
        return found[1]

    def encode_list(self, clusters: Sequence[Cluster], viewer: User) -> bytes:
        """Return records by name as one JSON object, in the order given.

        As in `encode_one`, if it is a tuple; anything else may have changed.
        """
        epoch = self._links.epoch
        if not isinstance(clusters, tuple):
            return self._join(clusters, viewer, epoch)
        key = _make_key(clusters, viewer, epoch)
        found = self._lists.get(key)
        if found is None:
            found = (clusters, self._join(clusters, viewer, epoch))
            self._lists.put(key, found)
        return found[1]

    def _join(self, clusters: Sequence[Cluster], viewer: User, epoch: int) -> bytes:
        records = (
            b'"%b":%b' % (c.name.encode(), self._encode(c, viewer, epoch))
            for c in clusters
        )
        return b"{" + b",".join(records) + b"}"

    def _encode(self, cluster: Cluster, viewer: User, epoch: int) -> bytes:
        if cluster.client is not None:
            return self.encode_one(cluster, viewer)
        key = (cluster.name, cluster.version, epoch, viewer.name, bool(viewer.admin))
        found = self._cache.get(key)
        if found is None:
            found = encode(self._build(cluster, viewer))
            self._cache.put(key, found)
        return found

    def _build(self, cluster: Cluster, viewer: User) -> ClusterRecord:
        running = cluster.status is PublicStatus.RUNNING
        route = None
        if running and cluster.has_dashboard:
            route = self._links.format_route(cluster.name, viewer)
        record = ClusterRecord(
            name=cluster.name,
            dashboard_route=route,
            status=cluster.status,
            start_time=cluster.start_ms,
            stop_time=cluster.stop_ms,
            options=dict(cluster.options),
        )
        if running and cluster.client is not None and cluster.owner == viewer.name:
            record = msgspec.structs.replace(
                record,
                tls_cert=cluster.client.certificate,
                tls_key=cluster.client.key,
            )
        return record


def _make_key(made_of: object, viewer: User, epoch: int) -> _TextKey:
    # The id is unique, since what it is of is kept beside the text.
    return (id(made_of), epoch, viewer.name, bool(viewer.admin))


RECORDS = web.AppKey("records", Records)
