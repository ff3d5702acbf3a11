"""A gateway of one's own as a child process: configured, started, stopped."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from gateway.demo.report import StepFailed

_READY_S = 90.0
_STOP_S = 60.0
_LOG_LINES = 15


@dataclass(frozen=True, slots=True)
class DemoGateway:
    """Where the demo's gateway answers, and where it writes."""

    address: str
    log: Path


def choose_port(preferred: int) -> int:
    """Return ``preferred`` if nothing listens there, else a free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            # As Traefik binds it: a port in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StepFailed(
        "no free TCP port on 127.0.0.1", "end some programs that hold ports"
    )


def write_config(directory: Path, *, port: int, password: str) -> Path:
    """Write the demo's configuration file and return its path."""
    path = directory / "daskfleet_config.py"
    path.touch(mode=0o600)
    path.write_text(
        "c = get_config()\n"
        f"c.DaskGateway.data_directory = {str(directory / 'data')!r}\n"
        f'c.Proxy.address = "127.0.0.1:{port}"\n'
        # Nothing of a demo outlives it.
        "c.Proxy.stop_on_exit = True\n"
        "c.DBBackendBase.stop_clusters_on_shutdown = True\n"
        f"c.SimpleAuthenticator.password = {password!r}\n"
        "c.LocalClusterConfig.cluster_max_workers = 4\n"
        'c.LocalClusterConfig.worker_memory = "1 G"\n'
        'c.LocalClusterConfig.scheduler_memory = "1 G"\n'
    )
    return path


@asynccontextmanager
async def run_gateway_process(
    directory: Path, config: Path, *, port: int
) -> AsyncIterator[DemoGateway]:
    """Start ``daskfleet gateway`` and yield once it is ready; stop it at the end.

    Raises
    ------
    StepFailed
        If it ends or is not ready in 90 s, with the last lines of its log.
    """
    gateway = DemoGateway(f"http://127.0.0.1:{port}", directory / "gateway.log")
    with gateway.log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "gateway", "-f", str(config),
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        await _wait_ready(gateway, process)
        yield gateway
    finally:
        await _stop(process)


async def _wait_ready(
    gateway: DemoGateway, process: asyncio.subprocess.Process
) -> None:
    ended = asyncio.ensure_future(process.wait())  # noqa: TID251 - awaited or cancelled below
    try:
        async with asyncio.timeout(_READY_S), aiohttp.ClientSession() as session:
            while not ended.done():
                if await _answers(session, f"{gateway.address}/api/ready"):
                    return
                await asyncio.wait({ended}, timeout=0.2)
    except TimeoutError:
        problem = f"not ready after {_READY_S:.0f} s"
    else:
        problem = f"it ended with status {process.returncode}"
    finally:
        ended.cancel()
    raise StepFailed(
        f"{problem}; last lines of {gateway.log}:\n{_tail(gateway.log)}",
        "mend what the last line names, then type the command again",
    )


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200  # noqa: PLR2004 - HTTP
    except aiohttp.ClientError:
        return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_LINES:])
