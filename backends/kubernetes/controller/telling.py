"""Tell what happened to a cluster as Kubernetes Events in the gateway's namespace.

The same told twice is one Event with a count, also after a restart: its name is made
of what it says. Events are a help, so a full queue loses some, and nothing waits.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import AlreadyExists, KubeError
from backends.kubernetes.api.resources import EVENTS
from backends.kubernetes.crd.formatting import format_time
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import (
    API_VERSION,
    GROUP,
    KIND,
    LABEL_CLUSTER,
    hash_text,
)
from gateway.aio.limits import ExpiringMap
from gateway.domain.cluster import ClusterEvent

log = structlog.get_logger(__name__)

ANNOTATION_WORKER: Final = f"{GROUP}/worker"
ANNOTATION_COMPONENT: Final = f"{GROUP}/component"
_COMPONENT: Final = "daskfleet-controller"
_QUEUE: Final = 1000
_KNOWN: Final = 5000
_MESSAGE: Final = 1024


class EventTeller:
    """Writes Events in the background, one after the other."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_QUEUE)
        self._counts: ExpiringMap[str, int] = ExpiringMap(_KNOWN, 3600.0)

    def tell(self, cluster: DaskCluster, events: Iterable[ClusterEvent]) -> None:
        """Have ``events`` of ``cluster`` written soon."""
        for event in events:
            if self._queue.full():
                log.warning("event lost", cluster=cluster.name, reason=event.reason)
                return
            self._queue.put_nowait(build_event(cluster, event))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except KubeError as error:
                log.warning("event not written", error=str(error))

    async def flush(self) -> None:
        """Write what is waiting, and return."""
        while not self._queue.empty():
            await self._write(self._queue.get_nowait())

    async def _write(self, event: dict[str, Any]) -> None:
        name, place = event["metadata"]["name"], event["metadata"]["namespace"]
        count = (self._counts.get(name) or 0) + 1
        if count == 1:
            try:
                await self._client.create(EVENTS, event, namespace=place)
                self._counts.put(name, 1)
            except AlreadyExists:
                count = 2
            else:
                return
        again = {"count": count, "lastTimestamp": event["lastTimestamp"]}
        await self._client.patch(EVENTS, name, again, namespace=place)
        self._counts.put(name, count)


def build_event(cluster: DaskCluster, event: ClusterEvent) -> dict[str, Any]:
    """Build the Event that tells ``event`` of ``cluster``."""
    words = (cluster.uid, event.reason, event.message, event.worker or "")
    annotations = {ANNOTATION_COMPONENT: event.component}
    if event.worker is not None:
        annotations[ANNOTATION_WORKER] = event.worker
    told = format_time(datetime.fromtimestamp(event.time_ms / 1000, UTC))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{cluster.name}.{hash_text(chr(0).join(words))}",
            "namespace": cluster.namespace,
            "labels": {LABEL_CLUSTER: cluster.name},
            "annotations": annotations,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": cluster.namespace,
            "name": cluster.name,
            "uid": cluster.uid,
        },
        "type": str(event.type),
        "reason": event.reason,
        "message": event.message[:_MESSAGE],
        "count": 1,
        "firstTimestamp": told,
        "lastTimestamp": told,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
    }
