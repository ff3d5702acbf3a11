"""One cluster's life through the stock client, in a process of its own.

Run as ``python -m benchmarks.life gateway URL USER PASSWORD`` or, for what Dask
alone needs on this machine, ``python -m benchmarks.life bare DASK``. Prints JSON.
The client is the unmodified ``dask-gateway`` of this environment.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from dask_gateway import BasicAuth, Gateway
from distributed import Client

from benchmarks.processes import ROOT, free_port

_CONNECT_S = "120s"
_LONGEST_S = 300
_WORKER = ("--nthreads=1", "--memory-limit=1GB")


def measure_life(url: str, user: str, password: str) -> dict[str, Any]:
    """Create, connect, scale to one worker, compute, stop; return the seconds."""
    return _run_here(["gateway", url, user, password])


def measure_bare(python: Path) -> dict[str, Any]:
    """Start a scheduler and a worker by hand; return the same seconds.

    Parameters
    ----------
    python
        Of the environment in which they run.
    """
    return _run_here(["bare", str(python.with_name("dask"))])


def _run_here(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.life", *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
        timeout=_LONGEST_S,
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


async def _through_gateway(url: str, user: str, password: str) -> dict[str, Any]:
    auth = BasicAuth(user, password)
    async with Gateway(url, auth=auth, asynchronous=True) as gateway:
        await gateway.list_clusters()  # log in before the clock starts
        started = time.perf_counter()
        name = await gateway.submit()
        accepted = time.perf_counter()
        async with (
            gateway.connect(name, shutdown_on_close=True) as cluster,
            cluster.get_client(set_as_default=False) as client,
        ):
            connected = time.perf_counter()
            await cluster.scale(1)
            await client.wait_for_workers(1, timeout=_CONNECT_S)
            worker = time.perf_counter()
            await _compute(client)
    return {
        "accepted_s": accepted - started,
        "create_to_connected_s": connected - started,
        "scale_to_worker_s": worker - connected,
    }


async def _by_hand(dask: str) -> dict[str, Any]:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    started = time.perf_counter()
    async with _running(dask, "scheduler", "--host", address):
        # Left to itself the client backs off for seconds.
        await _wait_for_port(port)
        async with Client(address, asynchronous=True, timeout=_CONNECT_S) as client:
            connected = time.perf_counter()
            async with _running(dask, "worker", address, *_WORKER):
                await client.wait_for_workers(1, timeout=_CONNECT_S)
                ready = time.perf_counter()
                await _compute(client)
    return {
        "create_to_connected_s": connected - started,
        "scale_to_worker_s": ready - connected,
    }


@asynccontextmanager
async def _running(*command: str) -> AsyncIterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *command,
            "--dashboard-address=127.0.0.1:0",
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            yield
        finally:
            process.terminate()
            await process.wait()


async def _wait_for_port(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


async def _compute(client: Client) -> None:
    result = await client.submit(sum, [20, 22])
    if result != 42:
        raise RuntimeError(f"the cluster computed {result!r}")


def _main(arguments: list[str]) -> None:
    kind, *rest = arguments
    work = _by_hand(*rest) if kind == "bare" else _through_gateway(*rest)
    json.dump(asyncio.run(work), sys.stdout)


if __name__ == "__main__":
    _main(sys.argv[1:])
