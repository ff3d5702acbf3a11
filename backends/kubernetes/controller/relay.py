"""Live logs and events of pods for the API server, which has no rights where they are.

Every replica serves them, leader or not, on an internal port. The caller shows the
token that only the chart's Secret holds; whose cluster it is was decided by the API
server. Two routes:

* ``GET /v1/clusters/{name}/logs``: lines of text as they come. Parameters:
  ``component`` (scheduler, worker), ``worker`` (a worker's name; without it all of
  them, each line after its worker's name), ``tail``, ``follow`` (0, 1).
* ``GET /v1/clusters/{name}/events``: a JSON list of what Kubernetes tells of the
  cluster's pods, with the fields of `gateway.domain.cluster.ClusterEvent`.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import KubeError
from backends.kubernetes.api.resources import EVENTS, PODS
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.names import SCHEDULER_CONTAINER, WORKER_CONTAINER
from backends.kubernetes.observed.pods import PodView
from gateway.domain.cluster import ClusterEvent, EventType

_MOST_TAIL: Final = 10_000
# Streams of all workers of a cluster at once.
_MOST_STREAMS: Final = 100
_QUEUE: Final = 1000
# Etcd keeps Events for an hour; of a restless namespace that is a lot.
_MOST_EVENTS: Final = 5000


class _Involved(Struct):
    name: str = ""


class _Event(Struct, rename="camel"):
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
        return await handler(request)

    relay = _Relay(client, caches)
    app = web.Application(middlewares=[check_token])
    app.router.add_get("/v1/clusters/{name}/logs", relay.answer_logs)
    app.router.add_get("/v1/clusters/{name}/events", relay.answer_events)
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
        is_named = len(pods) == 1
        async for line in self._read(pods, query, is_named=is_named):
            await response.write(line + b"\n")
        await response.write_eof()
        return response

    async def answer_events(self, request: web.Request) -> web.Response:
        cluster = self._caches.find_cluster(request.match_info["name"])
        if cluster is None:
            return web.Response(status=404, text="no such cluster")
        place = cluster.spec.target_namespace
        pods = {pod.name: pod for pod in self._caches.pods_of(cluster.name, place)}
        raw = await self._client.read_list(
            EVENTS,
            namespace=place,
            query={
                "fieldSelector": "involvedObject.kind=Pod",
                "limit": str(_MOST_EVENTS),
            },
        )
        told = [
            _translate(event, pods[event.involved_object.name])
            for event in _DECODER.decode(raw).items
            if event.involved_object.name in pods
        ]
        told.sort(key=lambda event: event.time_ms)
        return web.Response(
            body=msgspec.json.encode(told), content_type="application/json"
        )

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

    async def _read(
        self, pods: Sequence[PodView], query: dict[str, str], *, is_named: bool
    ) -> AsyncIterator[bytes]:
        """Yield lines of all ``pods`` as they come."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE)

        async def follow(pod: PodView) -> None:
            prefix = b"" if is_named else f"{pod.name}: ".encode()
            try:
                async for line in self._stream(pod, query):
                    await lines.put(prefix + line)
            except KubeError as error:
                # It is a log like any other: why it ends here stands in it.
                await lines.put(prefix + f"[no log: {error.text}]".encode())
            finally:
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
                        yield line
            finally:
                for task in running:
                    task.cancel()

    def _stream(self, pod: PodView, query: dict[str, str]) -> AsyncIterator[bytes]:
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
    at = event.last_timestamp or event.event_time
    is_warning = event.type == EventType.WARNING
    return ClusterEvent(
        0 if at is None else round(at.timestamp() * 1000),
        EventType.WARNING if is_warning else EventType.NORMAL,
        event.reason,
        event.message,
        "scheduler" if pod.is_scheduler else "worker",
        None if pod.is_scheduler else pod.name,
    )
