"""Whether the gateway lives and is ready, and which version it is."""

from aiohttp import web

from gateway.http.replies import json_response
from gateway.http.schemas import HealthReply, VersionReply
from gateway.http.services import get_backend, get_settings


async def check_health(_request: web.Request) -> web.Response:
    """Answer that the process lives."""
    return json_response(HealthReply("pass"))


async def check_ready(request: web.Request) -> web.Response:
    """Answer 200 if the store answers and the state is loaded."""
    await get_backend(request).check_ready()
    return json_response(HealthReply("pass"))


async def show_version(request: web.Request) -> web.Response:
    """Answer with the gateway's version."""
    return json_response(VersionReply(get_settings(request).version))
