"""Pass connections on into a world, which has no network in common with the machine.

A socket's file is what both see: one side listens on the machine's loopback, the
other in the world, and it lies in the checkout, which they share.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

_CHUNK = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


@asynccontextmanager
async def forward_from(port: int, socket: Path) -> AsyncIterator[None]:
    """Pass what comes to ``127.0.0.1:port`` on to whoever listens on ``socket``."""
    relay = partial(_relay, lambda: asyncio.open_unix_connection(socket))
    async with await asyncio.start_server(relay, "127.0.0.1", port):
        yield


@asynccontextmanager
async def forward_to(socket: Path, host: str, port: int) -> AsyncIterator[None]:
    """Pass what comes to ``socket`` on to ``host:port``."""
    await asyncio.to_thread(socket.unlink, missing_ok=True)
    relay = partial(_relay, lambda: asyncio.open_connection(host, port))
    async with await asyncio.start_unix_server(relay, socket):
        yield


async def _relay(
    dial: Dial, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        other_reader, other_writer = await dial()
    except OSError:
        writer.close()
        return
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_pump(reader, other_writer))
        tasks.create_task(_pump(other_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    # Also the other direction ends: whoever half-closes here has nothing to wait for.
    writer.close()
