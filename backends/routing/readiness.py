"""Whether a Traefik answers, and when it is gone."""

import asyncio
import os
from typing import Final

from backends.routing.proc import ProcessId, read_process
from backends.routing.table import LOADED_PATH

_ANSWER_S: Final = 2.0
_POLL_S: Final = 0.2
_REQUEST: Final = (
    f"GET {LOADED_PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
).encode()
_ANSWER: Final = b"HTTP/1.1 200 "


async def serves_table(port: int) -> bool:
    """Return whether a Traefik on that loopback port has read its table.

    Asks for a route that every table has; false after two seconds.
    """
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_REQUEST)
                await writer.drain()
                return (await reader.readline()).startswith(_ANSWER)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False


async def is_alive(process: ProcessId) -> bool:
    """Return whether that very process still runs."""
    return await asyncio.to_thread(read_process, process.pid) == process


async def wait_for_exit(process: ProcessId) -> None:
    """Return once ``process`` is gone, and reap it if it is our child.

    Works for processes that others started, too.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        # Gone already; or a kernel before 5.3, which has no such call.
        while await is_alive(process):  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(_POLL_S)
        _reap(process.pid)
        return
    try:
        # Between the look and the descriptor another may have got the pid.
        if await is_alive(process):
            gone = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(descriptor, gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)
    _reap(process.pid)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another gateway's, or the init process's
