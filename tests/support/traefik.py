"""A real Traefik in a directory of its own, and small servers to stand behind it."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, CookieJar, WSMsgType, web

from backends.database.routes import Route
from backends.routing.routes import TraefikRoutes
from backends.routing.settings import RoutingSettings
from gateway.aio.clock import SystemClock
from gateway.domain.credentials import Credentials
from tests.support.eventually import eventually

# Our own marks on what a visitor or a tenant sends, to look for on the other side.
LOGIN_COOKIE = "daskfleet-dashboard=let-me-in"


def find_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Upstream:
    """A web server that tells who it is, what it saw, and can go away.

    Parameters
    ----------
    name
        Stands in every answer.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = find_port()
        self.seen: list[dict[str, Any]] = []
        self.asked: list[dict[str, str]] = []
        self.response_headers: list[tuple[str, str]] = []
        self.login_headers: dict[str, str] = {}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_get("/api/v1/dashboard-auth", self._check_login)
        app.router.add_get("/ws", self._talk)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(
            self._runner, "127.0.0.1", self.port, reuse_address=True
        ).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _check_login(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.headers))
        if LOGIN_COOKIE in request.headers.get("Cookie", ""):
            return web.Response(headers=self.login_headers)
        if request.headers["X-Forwarded-Uri"].endswith("/token/status"):
            return web.Response(
                status=302,
                headers={"Location": "/clusters/a/status", "Set-Cookie": LOGIN_COOKIE},
            )
        return web.Response(
            status=401, text="please log in", headers={"X-Login": "needed"}
        )

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        seen = {
            "server": self.name,
            "method": request.method,
            "path": request.raw_path,
            "headers": {k.lower(): v for k, v in request.headers.items()},
            "bytes": len(body),
        }
        self.seen.append(seen)
        response = web.json_response(seen)
        for header, value in self.response_headers:
            response.headers.add(header, value)
        return response

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        self.seen.append(
            {"headers": {k.lower(): v for k, v in request.headers.items()}}
        )
        talk = web.WebSocketResponse()
        for header, value in self.response_headers:
            talk.headers.add(header, value)
        await talk.prepare(request)
        async for message in talk:
            if message.type is WSMsgType.TEXT:
                await talk.send_str(f"{self.name} heard {message.data}")
        return talk


class Scheduler:
    """A TLS server that wants a client's certificate and echoes lines.

    Parameters
    ----------
    credentials
        Of its cluster.
    maximum
        Highest TLS version that it speaks.
    """

    def __init__(
        self,
        credentials: Credentials,
        folder: Path,
        maximum: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.maximum_version = maximum
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(cadata=credentials.ca_certificate)
        load_chain(self.context, credentials.scheduler, folder)
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._echo, "127.0.0.1", 0, ssl=self.context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _echo(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        writer.transport.abort()


def load_chain(context: ssl.SSLContext, pair: Any, folder: Path) -> None:
    """Give ``context`` a key pair; Python reads them from files alone."""
    path = folder / f"pair-{os.urandom(4).hex()}.pem"
    path.touch(mode=0o600)
    path.write_text(pair.certificate + pair.key)
    context.load_cert_chain(path)
    path.unlink()


def client_context(credentials: Credentials, folder: Path) -> ssl.SSLContext:
    """Build a context as the stock client does: its own CA, no host names."""
    context = ssl.create_default_context(cadata=credentials.ca_certificate)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    load_chain(context, credentials.client, folder)
    return context


@asynccontextmanager
async def running(*servers: Upstream | Scheduler) -> AsyncIterator[None]:
    """Keep servers up for the block."""
    try:
        for server in servers:
            await server.start()
        yield
    finally:
        for server in servers:
            await server.stop()


@asynccontextmanager
async def traefik(folder: Path, **changes: Any) -> AsyncIterator[TraefikRoutes]:
    """Run Traefik for ``folder`` during the block."""
    routes = make_routes(folder, **changes)
    try:
        await routes.setup()
        yield routes
    finally:
        await routes.stop()


def make_routes(folder: Path, **changes: Any) -> TraefikRoutes:
    """Build routes on a free port; the same port for the same folder."""
    kept = folder / "address"
    if not kept.exists():
        kept.write_text(f"127.0.0.1:{find_port()}")
    settings = {
        "data_directory": folder,
        "gateway_urls": ("http://127.0.0.1:1",),
        "address": kept.read_text(),
    }
    return TraefikRoutes(RoutingSettings(**(settings | changes)), SystemClock())


def address_of(routes: TraefikRoutes) -> tuple[str, int]:
    """Return host and port of the public port."""
    host, _, port = routes._settings.address.rpartition(":")
    return host or "127.0.0.1", int(port)


@asynccontextmanager
async def visitor(
    routes: TraefikRoutes, scheme: str = "http"
) -> AsyncIterator[ClientSession]:
    """Open a session at the public port that keeps no cookies."""
    host, port = address_of(routes)
    async with ClientSession(
        f"{scheme}://{host}:{port}",
        cookie_jar=CookieJar(unsafe=True),
        timeout=ClientTimeout(total=60),
    ) as session:
        yield session


async def publish(routes: TraefikRoutes, table: Sequence[Route]) -> None:
    """Publish, and wait until Traefik serves just these routes."""
    await routes.publish(table)
    await until_served(routes, table)


async def until_served(routes: TraefikRoutes, table: Sequence[Route]) -> None:
    """Wait until the dashboard of each route asks for a login."""
    settings = routes._settings
    headers = {"Host": settings.dashboard_host} if settings.dashboard_host else {}
    async with visitor(routes) as session:

        async def served() -> bool:
            for route in table:
                if route.dashboard_port is None:
                    continue
                path = f"{settings.base_path}/clusters/{route.cluster}/status"
                async with session.get(path, headers=headers) as answer:
                    if answer.headers.get("X-Login") != "needed":
                        return False
            return True

        await eventually(served, within=60)


async def request_raw(
    routes: TraefikRoutes, target: str, *headers: str
) -> tuple[int, str]:
    """Send one request with ``target`` as it stands; return status and body."""
    lines = [f"GET {target} HTTP/1.1", "Host: gateway", "Connection: close", *headers]
    reader, writer = await asyncio.open_connection(*address_of(routes))
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin1"))
        answer = (await asyncio.wait_for(reader.read(), 60)).decode("latin1")
    finally:
        writer.transport.abort()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ", 2)[1]), body


async def say(
    routes: TraefikRoutes, cluster: str, context: ssl.SSLContext, text: str
) -> str:
    """Send one line to the scheduler of a cluster through the public port."""
    reader, writer = await asyncio.open_connection(
        *address_of(routes), ssl=context, server_hostname=f"daskgateway-{cluster}"
    )
    try:
        writer.write(f"{text}\n".encode())
        return (await asyncio.wait_for(reader.readline(), 30)).decode().strip()
    finally:
        writer.transport.abort()


def kill(pid: int) -> None:
    """End a process as the kernel does when memory runs out."""
    os.kill(pid, signal.SIGKILL)


def read_table(routes: TraefikRoutes) -> dict[str, Any]:
    """Return the table as it stands in the file."""
    return json.loads((routes._settings.directory / "routes.yml").read_text())
