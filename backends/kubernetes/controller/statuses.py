"""Write a cluster's status: by compare-and-set, and only what differs."""

from datetime import datetime

from backends.kubernetes.api.errors import Call, NotFound, StaleWrite
from backends.kubernetes.api.resources import CLUSTERS
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.observer import Round
from backends.kubernetes.controller.writes import Writes
from backends.kubernetes.crd.formatting import Patch, format_status_patch
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import ClusterStatus
from backends.kubernetes.planning.conditions import SETTLE, is_urgent


class Statuses:
    """Writes statuses; their answers are in the cache at once."""

    def __init__(self, writes: Writes, caches: Caches) -> None:
        self._writes = writes
        self._caches = caches

    async def store(self, seen: Round, status: ClusterStatus) -> None:
        """Write ``status``; where nothing differs, let the server still compare.

        Raises
        ------
        StaleWrite
            If the cluster was written since it was seen.
        """
        if not await self._send(seen, self._format(seen, status)):
            call = Call(
                "patch", CLUSTERS.plural, seen.cluster.namespace, seen.cluster.name
            )
            raise StaleWrite(call, "it was deleted since it was seen")

    async def write(
        self, seen: Round, status: ClusterStatus, now: datetime
    ) -> float | None:
        """Write ``status`` if it differs; one that is not urgent when it has settled.

        Returns
        -------
        float or None
            Seconds after which to try again, where it was not written yet.
        """
        patch, memory = self._format(seen, status), seen.memory
        if "status" not in patch:
            memory.unsettled_since = None
            return None
        if not is_urgent(seen.cluster.status, status):
            since = memory.unsettled_since = memory.unsettled_since or now
            left = since + SETTLE - now
            if left.total_seconds() > 0:
                return left.total_seconds()
        memory.unsettled_since = None
        await self._send(seen, patch)
        return None

    def _format(self, seen: Round, status: ClusterStatus) -> Patch:
        cluster = seen.cluster
        return format_status_patch(
            cluster.status, status, resource_version=cluster.resource_version
        )

    async def _send(self, seen: Round, patch: Patch) -> bool:
        cluster = seen.cluster
        try:
            raw = await self._writes.patch(
                CLUSTERS,
                cluster.name,
                patch,
                namespace=cluster.namespace,
                subresource="status",
            )
        except NotFound:
            return False
        self._caches.clusters.cache.record(parse_dask_cluster(raw))
        return True
