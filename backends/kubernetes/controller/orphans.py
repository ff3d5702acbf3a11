"""Anchors whose ``DaskCluster`` is gone: looked up live, twice, then deleted."""

import structlog

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import NotFound
from backends.kubernetes.api.resources import CLUSTERS, SERVICES
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.memory import Memories
from backends.kubernetes.controller.writes import Writes
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.names import format_anchor_name
from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.planning.orphans import LookUpCluster, plan_orphan
from gateway.ports import Clock

log = structlog.get_logger(__name__)


class Orphans:
    """Removes what clusters have left that were deleted, whenever that was."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        caches: Caches,
        memories: Memories,
        clock: Clock,
    ) -> None:
        self._client = client
        self._writes = writes
        self._caches = caches
        self._memories = memories
        self._clock = clock

    async def reconcile(self, name: str) -> float | None:
        """Take the next step for all anchors of this name that nobody owns.

        Returns
        -------
        float or None
            Seconds after which to look again.
        """
        cluster = self._caches.find_cluster(name)
        delays = [
            await self._step(anchor)
            for anchor in self._caches.anchors_of(name)
            if anchor.name == format_anchor_name(name)
            and anchor.cluster_uid
            and (cluster is None or anchor.cluster_uid != cluster.uid)
        ]
        if cluster is None:
            self._memories.forget_cluster(name)
        return min((delay for delay in delays if delay is not None), default=None)

    async def _step(self, anchor: ServiceView) -> float | None:
        now = self._clock.now()
        step = plan_orphan(anchor, self._memories.sightings(anchor.uid), now)
        if isinstance(step.action, LookUpCluster):
            is_gone = await self._is_gone(anchor)
            self._memories.note_sighting(anchor.uid, now, is_gone=is_gone)
        elif step.action is not None:
            await self._delete(anchor)
            return None
        return (
            None if step.requeue_after is None else step.requeue_after.total_seconds()
        )

    async def _is_gone(self, anchor: ServiceView) -> bool:
        """Return whether the API server itself says so; any other error is raised."""
        namespace = self._client.namespace
        try:
            raw = await self._client.get(CLUSTERS, anchor.cluster, namespace=namespace)
        except NotFound:
            return True
        return parse_dask_cluster(raw).uid != anchor.cluster_uid

    async def _delete(self, anchor: ServiceView) -> None:
        await self._writes.delete(
            SERVICES, anchor.name, namespace=anchor.namespace, uid=anchor.uid
        )
        self._memories.forget_anchor(anchor.uid)
        log.info(
            "anchor of a deleted cluster removed",
            cluster=anchor.cluster,
            namespace=anchor.namespace,
        )
