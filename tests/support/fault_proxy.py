"""A proxy before an API server that cuts, stalls and refuses as a test says.

It lives in the test's own loop. TLS ends here on the way to the server only: what
is under test speaks plain HTTP to it, with its real token.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from aiohttp import web

from tests.harness.control_plane import ControlPlane

_HOP = {"transfer-encoding", "content-length", "connection", "content-encoding"}


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer by itself; the server never hears of it."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropAnswer:
    """Let the server do it, and lose its answer."""


@dataclass(frozen=True, slots=True)
class Inject:
    """Let the watch begin, and send this line in it."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Reset:
    """Cut the connection; the server never hears of it."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Pass it on later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Swallow:
    """Let the watch begin, and pass on nothing of it while all stays open."""


@dataclass(frozen=True, slots=True)
class EndAfter:
    """Let the watch end in good order after so long, as a server does in minutes."""

    seconds: float


Fault = Refuse | DropAnswer | Inject | Reset | Delay | Swallow | EndAfter
Rule = Callable[[web.Request], Fault | None]


class FaultProxy:
    """Passes calls on to ``plane``.

    Attributes
    ----------
    rule
        Names the fault of a call; None for none.
    seen
        ``METHOD path?query`` of all calls.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.rule: Rule = lambda _: None
        self.seen: list[str] = []
        self._plane = plane
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: dict[int, web.Request] = {}

    async def __aenter__(self) -> Self:
        context = self._plane.client().context
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        # Whoever has gone waits for nothing any more.
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self.cut()
        await self._runner.cleanup()
        await self._session.close()

    def cut(self) -> None:
        """Cut all connections that carry something now."""
        for request in self._open.values():
            if request.transport is not None:
                request.transport.abort()

    def stall(self) -> None:
        """Pass nothing on, in either direction, and keep all connections open."""
        self._flowing.clear()

    def go_on(self) -> None:
        """End `stall`."""
        self._flowing.set()

    def count(self, text: str) -> int:
        """Return how many calls had ``text`` in them."""
        return sum(text in call for call in self.seen)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path_qs}")
        fault = self.rule(request)
        if isinstance(fault, Refuse):
            return web.Response(
                status=fault.status,
                text=fault.body,
                headers={"Content-Type": "application/json", **fault.headers},
            )
        if isinstance(fault, Reset):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        self._open[id(request)] = request
        try:
            return await self._forward(request, fault)
        finally:
            del self._open[id(request)]

    async def _forward(
        self, request: web.Request, fault: Fault | None
    ) -> web.StreamResponse:
        await self._flowing.wait()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        headers.pop("Host", None)
        url = f"{self._plane.url}{request.path_qs}"
        body = await request.read()
        async with self._session.request(
            request.method, url, data=body, headers=headers
        ) as answer:
            if isinstance(fault, DropAnswer):
                await answer.read()
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if isinstance(fault, Inject):
                await response.write(fault.line + b"\n")
            limit_s = fault.seconds if isinstance(fault, EndAfter) else None
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    async for chunk in answer.content.iter_any():
                        await self._flowing.wait()
                        if not isinstance(fault, Swallow):
                            await response.write(chunk)
            await response.write_eof()
            return response
