"""Log lines of a cluster's processes, as text, as they come if asked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from aiohttp import web

from gateway.http.access import find_cluster
from gateway.http.identity import finish
from gateway.http.queries import parse_log_query
from gateway.http.services import get_backend
from gateway.http.waits import HELD
from gateway.ports import LogQuery

# A reader that is still there asks again.
_LONGEST_FOLLOW_S = 3600.0
# For what stands there already; a disk or a node may be slow.
_LONGEST_READ_S = 60.0


async def read_logs(request: web.Request) -> web.StreamResponse:
    """Answer with log lines, oldest first; with ``follow``, go on."""
    cluster = await find_cluster(request)
    query = parse_log_query(request, cluster.name)
    response = web.StreamResponse()
    response.content_type = "text/plain"
    response.charset = "utf-8"
    await finish(request, response)
    if request.method != "HEAD":
        try:
            await _copy(request, response, cluster.name, query)
        except ConnectionResetError:
            return response  # the reader has gone
    if not response.prepared:
        await response.prepare(request)
    await response.write_eof()
    return response


async def _copy(
    request: web.Request, response: web.StreamResponse, name: str, query: LogQuery
) -> None:
    held = request.app[HELD]
    found = get_backend(request).read_logs(name, query)
    longest_s = _LONGEST_FOLLOW_S if query.follow else _LONGEST_READ_S
    scope = asyncio.timeout(longest_s)
    # The port asks for an iterator that can be closed.
    async with aclosing(cast("AsyncGenerator[str, None]", found)) as lines:
        try:
            async with scope:
                held.watch(scope)
                if query.follow:
                    await response.prepare(request)
                await _write(request, response, lines)
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            held.forget(scope)


async def _write(
    request: web.Request, response: web.StreamResponse, lines: AsyncIterator[str]
) -> None:
    async for line in lines:
        if not response.prepared:
            await response.prepare(request)
        await response.write(line.encode("utf-8", "replace") + b"\n")
