"""Scale and adapt."""

from aiohttp import web

from gateway.domain.errors import InvalidRequest
from gateway.http.access import find_cluster
from gateway.http.bodies import parse_body
from gateway.http.replies import json_response
from gateway.http.schemas import AdaptRequest, ScaleRequest, SizeReply
from gateway.http.services import get_backend


async def scale_cluster(request: web.Request) -> web.Response:
    """Accept a wanted number of workers, cut to the limits."""
    cluster = await find_cluster(request)
    body = await _parse_scale(request)
    outcome = await get_backend(request).scale_cluster(cluster.name, body.count)
    return json_response(SizeReply(outcome.message is None, outcome.message))


async def adapt_cluster(request: web.Request) -> web.Response:
    """Accept adaptive bounds, cut to the limits, or the end of adaptive mode."""
    cluster = await find_cluster(request)
    body = await parse_body(request, AdaptRequest)
    backend = get_backend(request)
    message = None
    if body.active:
        outcome = await backend.adapt_cluster(cluster.name, body.minimum, body.maximum)
        message = outcome.message
    else:
        await backend.end_adaptive(cluster.name)
    return json_response(SizeReply(message is None, message))


async def _parse_scale(request: web.Request) -> ScaleRequest:
    try:
        return await parse_body(request, ScaleRequest)
    except InvalidRequest as error:
        if error.field != "count":
            raise
        # The peer's words, which programs look for, before the exact reason.
        text = f"Scale expects a non-negative integer: {error.text}"
        raise InvalidRequest("count", text) from error
