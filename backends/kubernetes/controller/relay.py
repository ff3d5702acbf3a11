"""Live logs and events of pods for the API server, which has no rights where they are.

Every replica serves them, leader or not, on an internal port. The caller shows the
token that only the chart's Secret holds; whose cluster it is was decided by the API
server. Three routes:

* ``GET /v1/clusters/{name}/logs``: lines of text as they come. Parameters:
  ``component`` (scheduler, worker), ``worker`` (a worker's name; without it all of
  them, each line after its worker's name), ``tail``, ``follow`` (0, 1).
* ``GET /v1/clusters/{name}/events``: a JSON list of what the controller has told of
  the cluster and Kubernetes of its pods, with the fields of
  `gateway.domain.cluster.ClusterEvent`.
* ``GET /v1/clusters/{name}/workers``: a JSON list of the workers that have pods, with
  the fields of `gateway.domain.cluster.Worker`.

A replica that has not seen everything yet answers 503: ask another.
"""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import KubeError
from backends.kubernetes.api.resources import EVENTS, PODS
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.telling import (
    ANNOTATION_COMPONENT,
    ANNOTATION_WORKER,
)
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import KIND, SCHEDULER_CONTAINER, WORKER_CONTAINER
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.planning.reporting import build_pod_workers
from gateway.domain.cluster import ClusterEvent, EventType

_MOST_TAIL: Final = 10_000
# Streams of all workers of a cluster at once.
_MOST_STREAMS: Final = 100
_QUEUE: Final = 1000
# Etcd keeps Events for an hour; of a restless namespace that is a lot.
_MOST_EVENTS: Final = 5000
# The API server asks for no longer; one that vanished without a word never ends it.
_LONGEST_S: Final = 3700.0


class _Involved(Struct):
    name: str = ""


class _Metadata(Struct):
    annotations: dict[str, str] = field(default_factory=dict)


class _Event(Struct, rename="camel"):
    metadata: _Metadata = field(default_factory=_Metadata)
    involved_object: _Involved = field(default_factory=_Involved)
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class _Events(Struct):
    items: list[_Event]


_DECODER: Final = msgspec.json.Decoder(_Events)


def build_relay(
    client: KubeClient, caches: Caches, read_token: Callable[[], str]
) -> web.Application:
    """Return the relay's routes.

    Parameters
    ----------
    read_token
        Returns the token that callers must show; read for each, as it may change.
    """

    @web.middleware
    async def check_token(
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token = await asyncio.to_thread(read_token)
        # Without a token nobody is let in, rather than everybody.
        if not token or not hmac.compare_digest(shown.encode(), token.encode()):
            return web.Response(status=401, text="wrong token")
        if not caches.is_whole:
            return web.Response(status=503, text="not everything is seen yet")
        return await handler(request)

    relay = _Relay(client, caches)
    app = web.Application(middlewares=[check_token])
    app.router.add_get("/v1/clusters/{name}/logs", relay.answer_logs)
    app.router.add_get("/v1/clusters/{name}/events", relay.answer_events)
    app.router.add_get("/v1/clusters/{name}/workers", relay.answer_workers)
    return app


class _Relay:
    def __init__(self, client: KubeClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches

    async def answer_logs(self, request: web.Request) -> web.StreamResponse:
        pods = self._find_pods(request)
        if not pods:
            return web.Response(status=404, text="no such pod")
        query = _read_query(request)
        response = web.StreamResponse(
            headers={"Content-Type": "text/plain; charset=utf-8"}
        )
        await response.prepare(request)
        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._copy(pods, query, response)
            await response.write_eof()
        except* (ConnectionResetError, TimeoutError):
            # The reader has gone; the connection is closed after half an answer.
            request.protocol.force_close()
        return response

    async def answer_events(self, request: web.Request) -> web.Response:
        cluster = self._caches.find_cluster(request.match_info["name"])
        if cluster is None:
            return web.Response(status=404, text="no such cluster")
        try:
            told = [*await self._read_own(cluster), *await self._read_pods(cluster)]
        except KubeError as error:
            return web.Response(status=503, text=str(error))
        told.sort(key=lambda event: event.time_ms)
        return web.Response(
            body=msgspec.json.encode(told), content_type="application/json"
        )

    async def answer_workers(self, request: web.Request) -> web.Response:
        cluster = self._caches.find_cluster(request.match_info["name"])
        if cluster is None:
            return web.Response(status=404, text="no such cluster")
        pods = self._caches.pods_of(cluster.name, cluster.spec.target_namespace)
        return web.Response(
            body=msgspec.json.encode(build_pod_workers(pods)),
            content_type="application/json",
        )

    async def _read_own(self, cluster: DaskCluster) -> Iterable[ClusterEvent]:
        """Return what controllers have told of the cluster."""
        selector = f"involvedObject.kind={KIND},involvedObject.uid={cluster.uid}"
        return map(_translate_own, await self._list(cluster.namespace, selector))

    async def _read_pods(self, cluster: DaskCluster) -> Iterable[ClusterEvent]:
        """Return what Kubernetes tells of pods that are there."""
        place = cluster.spec.target_namespace
        pods = {pod.name: pod for pod in self._caches.pods_of(cluster.name, place)}
        if not pods:
            return ()
        found = await self._list(place, "involvedObject.kind=Pod")
        return [
            _translate(event, pods[event.involved_object.name])
            for event in found
            if event.involved_object.name in pods
        ]

    async def _list(self, namespace: str, selector: str) -> list[_Event]:
        query = {"fieldSelector": selector, "limit": str(_MOST_EVENTS)}
        raw = await self._client.read_list(EVENTS, namespace=namespace, query=query)
        return _DECODER.decode(raw).items

    def _find_pods(self, request: web.Request) -> Sequence[PodView]:
        cluster = self._caches.find_cluster(request.match_info["name"])
        if cluster is None:
            return ()
        place = cluster.spec.target_namespace
        pods = self._caches.pods_of(cluster.name, place)
        worker = request.query.get("worker")
        if request.query.get("component", "scheduler") == "scheduler":
            return [pod for pod in pods if pod.is_scheduler][:1]
        workers = [pod for pod in pods if not pod.is_scheduler]
        workers.sort(key=lambda pod: (pod.ordinal or 0, pod.name))
        return [pod for pod in workers if worker in (None, pod.name)][:_MOST_STREAMS]

    async def _copy(
        self,
        pods: Sequence[PodView],
        query: dict[str, str],
        response: web.StreamResponse,
    ) -> None:
        """Write lines of all ``pods`` as they come."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE)
        is_named = len(pods) == 1

        async def follow(pod: PodView) -> None:
            prefix = b"" if is_named else f"{pod.name}: ".encode()
            try:
                async with aclosing(self._stream(pod, query)) as stream:
                    async for line in stream:
                        await lines.put(prefix + line)
            except KubeError as error:
                # It is a log like any other: why it ends here stands in it.
                await lines.put(prefix + f"[no log: {error.text}]".encode())
            await lines.put(None)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(follow(pod)) for pod in pods]
            try:
                left = len(running)
                while left:
                    line = await lines.get()
                    if line is None:
                        left -= 1
                    else:
                        await response.write(line + b"\n")
            finally:
                for task in running:
                    task.cancel()

    def _stream(self, pod: PodView, query: dict[str, str]) -> AsyncGenerator[bytes]:
        container = SCHEDULER_CONTAINER if pod.is_scheduler else WORKER_CONTAINER
        return self._client.stream(
            PODS,
            namespace=pod.namespace,
            name=pod.name,
            subresource="log",
            query={**query, "container": container},
        )


def _read_query(request: web.Request) -> dict[str, str]:
    tail = request.query.get("tail", "100")
    lines = min(int(tail), _MOST_TAIL) if tail.isdecimal() else 100
    query = {"tailLines": str(lines)}
    if request.query.get("follow") == "1":
        query["follow"] = "true"
    return query


def _translate(event: _Event, pod: PodView) -> ClusterEvent:
    worker = None if pod.is_scheduler else pod.name
    return _make(event, "scheduler" if pod.is_scheduler else "worker", worker)


def _translate_own(event: _Event) -> ClusterEvent:
    annotations = event.metadata.annotations
    component = annotations.get(ANNOTATION_COMPONENT, "cluster")
    return _make(event, component, annotations.get(ANNOTATION_WORKER))


def _make(event: _Event, component: str, worker: str | None) -> ClusterEvent:
    at = event.last_timestamp or event.event_time
    is_warning = event.type == EventType.WARNING
    return ClusterEvent(
        0 if at is None else round(at.timestamp() * 1000),
        EventType.WARNING if is_warning else EventType.NORMAL,
        event.reason,
        event.message,
        component,
        worker,
    )
