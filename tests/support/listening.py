"""The API on a port of its own, with a backend in memory: for bytes on the wire."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.auth import SimpleAuthenticator
from gateway.http.app import build_app
from gateway.http.listener import Listener
from gateway.http.services import AppServices
from tests.support.api import SIGNING_KEY
from tests.support.builders import FakeClock
from tests.support.memory_backend import MemoryBackend

_ANSWER_S = 30.0


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, MemoryBackend]]:
    """Yield the port, and what is behind it."""
    clock = FakeClock()
    backend = MemoryBackend(clock=clock)
    app = build_app(
        AppServices(
            backend=backend,
            authenticator=SimpleAuthenticator(),
            clock=clock,
            signing_keys=[SIGNING_KEY],
        )
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Listener(app, grace_s=1)
        await server.start(listener)
        try:
            yield listener.getsockname()[1], backend
        finally:
            await server.stop()


async def say(
    address: tuple[str, int], request: str, body: bytes = b""
) -> tuple[int, dict[str, str], str]:
    """Send bytes; return status, headers in small letters, and text of the answer."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request.encode("latin-1") + body)
    async with asyncio.timeout(_ANSWER_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", 0))
        text = (await reader.readexactly(length)).decode()
    writer.transport.abort()
    return int(first.split()[1]), headers, text
