"""The schedulers' door: sync for our plugin, heartbeats for the stock preload."""

import random

import msgspec
from aiohttp import web

from gateway.aio.budget import Budget
from gateway.domain.errors import Unavailable
from gateway.domain.sync import MAX_WAIT_S, SyncReply, SyncReport
from gateway.http.access import get_name
from gateway.http.bodies import parse_body
from gateway.http.replies import json_response
from gateway.http.reports import HeartbeatRequest, SyncRequest
from gateway.http.schemas import ErrorReply
from gateway.http.services import get_backend
from gateway.http.waits import HELD

MAX_HEARTBEAT = 16 << 20  # `closed_workers` grows for as long as a cluster lives

# So that the plugins of many clusters do not all come back together.
_JITTER = 0.2
# A scheduler whose time is over, and that cannot be ended yet, must not ask in a loop.
_LEAST_HOLD_S = 1.0
# Plugins round what they report.
_ROUNDED_S = 0.1


async def sync_cluster(request: web.Request) -> web.Response:
    """Take a scheduler's report; answer once something else is wanted of it."""
    name = get_name(request)
    body = await parse_body(request, SyncRequest)
    reply = await get_backend(request).sync(name, parse_report(body))
    wait_s = min(body.wait_s, MAX_WAIT_S)
    wait_s *= 1 - _JITTER * random.random()  # noqa: S311 - spread, not a secret
    if reply.due_s is not None:
        wait_s = min(wait_s, max(reply.due_s, _LEAST_HOLD_S) + _ROUNDED_S)
    if wait_s > 0 and reply.generation <= body.seen:
        reply = await _hold(request, reply, seen=body.seen, wait_s=wait_s)
    return json_response(reply)


async def beat_cluster(request: web.Request) -> web.Response:
    """Take a heartbeat of the stock preload, which decides nothing here.

    Notes
    -----
    A 200 to a non-empty ``closing_workers`` makes that preload retire them.
    """
    get_name(request)
    body = await parse_body(request, HeartbeatRequest, limit=MAX_HEARTBEAT)
    if not body.closing_workers:
        return web.Response(status=200)
    text = "this gateway retires workers by its own plugin"
    reply = ErrorReply(text, "not_supported")
    return json_response(reply, status=503, headers={"Retry-After": "60"})


def parse_report(body: SyncRequest) -> SyncReport:
    """Return what ``body`` reports, as the core knows it."""
    return msgspec.convert(body, SyncReport, from_attributes=True)


async def _hold(
    request: web.Request, reply: SyncReply, *, seen: int, wait_s: float
) -> SyncReply:
    held, backend, name = request.app[HELD], get_backend(request), get_name(request)
    budget = Budget(wait_s)
    while reply.generation <= seen and not (budget.is_over() or held.is_closing):
        try:
            # The version first: what changes after it ends the wait.
            version = (await backend.get_cluster(name)).version
            reply = await backend.get_wanted(name)
            if reply.generation <= seen:
                await held.until_change(backend, name, version, budget.remaining_s())
                reply = await backend.get_wanted(name)
        except Unavailable:
            await held.pause(budget)
    return reply
