"""What happened to a cluster, and its workers: routes that old clients never see."""

from aiohttp import web

from gateway.http.access import find_cluster
from gateway.http.replies import json_response
from gateway.http.schemas import EventRecord, EventsReply, WorkerRecord, WorkersReply
from gateway.http.services import get_backend


async def list_events(request: web.Request) -> web.Response:
    """Answer with the events of a cluster, oldest first."""
    cluster = await find_cluster(request)
    events = await get_backend(request).list_events(cluster.name)
    return json_response(
        EventsReply(
            [
                EventRecord(
                    time=e.time_ms,
                    type=e.type,
                    reason=e.reason,
                    message=e.message,
                    component=e.component,
                    worker=e.worker,
                )
                for e in events
            ]
        )
    )


async def list_workers(request: web.Request) -> web.Response:
    """Answer with the workers of a cluster, by ordinal."""
    cluster = await find_cluster(request)
    workers = await get_backend(request).list_workers(cluster.name)
    return json_response(
        WorkersReply(
            [
                WorkerRecord(
                    name=w.name,
                    status=w.state,
                    start_time=w.start_ms,
                    stop_time=w.stop_ms,
                    message=w.message,
                )
                for w in workers
            ]
        )
    )
