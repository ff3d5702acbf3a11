"""Real schedulers, workers and clients of one version, and a sync server."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.sync import SyncReport
from tests.support.eventually import eventually
from tests.support.old_distributed import find_old_python
from tests.support.sync_server import TOKEN, SyncServer

HERE = Path(__file__).parent
PLUGIN = HERE.parents[2] / "gateway" / "scheduler_plugin.py"

# A loaded machine takes its time to import distributed.
START_S = 60.0


class World:
    """One cluster's processes, of one version of distributed.

    Parameters
    ----------
    python
        Interpreter whose environment has that version.
    folder
        Where processes run and write; gates and logs of tasks too.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self.python = python
        self.plugin = PLUGIN
        self.folder = folder
        self.server = SyncServer()
        self.environment = {
            **os.environ,
            "DASK_GATEWAY_CLUSTER_NAME": self.server.cluster,
            "DASK_GATEWAY_API_TOKEN": TOKEN,
            "DASKFLEET_ADAPTIVE_PERIOD": "0.3",
            # Nobody asks it; were it asked, no call would arrive.
            "http_proxy": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "PYTHONPATH": "",
        }
        self.workers: dict[str, Process] = {}
        self.scheduler: Process | None = None
        self._client: Process | None = None
        self._processes: list[Process] = []

    async def start(self, *preloads: str | Path) -> None:
        """Start a scheduler with the plugin, and wait for its first report."""
        await self.server.start()
        self.environment["DASK_GATEWAY_API_URL"] = self.server.url
        self.scheduler = await self.run_scheduler(*preloads)
        await eventually(lambda: self.server.last.ports, within=START_S)

    async def run_scheduler(
        self, *preloads: str | Path, name: str = "scheduler"
    ) -> Process:
        """Start a scheduler as a launcher would."""
        command = ["--host", "127.0.0.1", "--port", "0"]
        command += ["--dashboard-address", "127.0.0.1:0"]
        for preload in preloads or (PLUGIN,):
            command += ["--preload", str(preload)]
        return await self._start(name, "distributed.cli.dask_scheduler", *command)

    @property
    def address(self) -> str:
        """Of the scheduler, as the plugin reports its port."""
        ports = self.server.last.ports
        assert ports is not None
        return f"tcp://127.0.0.1:{ports.scheduler}"

    async def start_worker(
        self, name: str | int, *options: str, connected: bool = True
    ) -> Process:
        """Start worker ``name``; a number is the ordinal of one of ours."""
        text = f"c1-worker-{name}" if isinstance(name, int) else name
        command = [self.address, "--name", text, "--nthreads", "1", "--no-dashboard"]
        command += ["--local-directory", str(self.folder), *options]
        if "--nanny" not in options:
            command.append("--no-nanny")
        worker = await self._start(text, "distributed.cli.dask_worker", *command)
        self.workers[text] = worker
        if connected and isinstance(name, int):
            await eventually(lambda: text in self.server.last.workers, within=START_S)
        return worker

    async def run(self, source: str) -> Any:
        """Run lines of Python in the client's process; return their ``answer``."""
        if self._client is None:
            self._client = await self._launch("client", HERE / "driver.py", pipes=True)
            connect = f"client = distributed.Client({self.address!r})"
            await self.run(f"{connect}\nfolder = {str(self.folder)!r}")
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.write(json.dumps(source).encode() + b"\n")
        async with asyncio.timeout(START_S):
            while line := await self._client.stdout.readline():
                if line.startswith(b"ANSWER "):
                    reply = json.loads(line.removeprefix(b"ANSWER "))
                    assert "error" not in reply, reply["error"]
                    return reply["answer"]
        raise AssertionError("the client has ended")

    async def close_client(self) -> None:
        """End the client's process as the end of its input does."""
        if self._client is not None:
            client, self._client = self._client, None
            assert client.stdin is not None
            client.stdin.close()
            await client.wait()

    async def told(self, check: Callable[[SyncReport], object]) -> None:
        """Wait for a report that is so; facts that need no hurry come when asked."""

        async def ask() -> object:
            await self.server.want()
            return check(self.server.last)

        await eventually(ask, every=0.3)

    def started(self, name: str) -> list[str]:
        """Return the workers that have begun task ``name``, in order."""
        with suppress(FileNotFoundError):
            return (self.folder / f"{name}.started").read_text().split()
        return []

    def let_go(self, name: str) -> None:
        """Let task ``name`` end."""
        (self.folder / f"{name}.go").touch()

    def log(self, name: str = "scheduler") -> str:
        """Return what a process has written."""
        return (self.folder / f"{name}.log").read_text()

    async def close(self) -> None:
        """Kill everything."""
        for process in self._processes:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            await process.wait()
        await self.server.stop()

    async def _start(self, name: str, module: str, *command: str) -> Process:
        return await self._launch(name, "-m", module, *command)

    async def _launch(self, name: str, *command: Any, pipes: bool = False) -> Process:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                self.python,
                *map(str, command),
                cwd=self.folder,
                env=self.environment,
                stdin=PIPE if pipes else None,
                stdout=PIPE if pipes else log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process


@pytest.fixture(scope="session", params=["oldest", "newest"])
def python(request: pytest.FixtureRequest) -> Path:
    """Interpreter with the oldest distributed that we support, or the newest."""
    return find_old_python() if request.param == "oldest" else Path(sys.executable)


@pytest.fixture
async def world(python: Path, tmp_path: Path) -> AsyncIterator[World]:
    """Nothing started yet; everything is killed at the end."""
    world = World(python, tmp_path)
    try:
        yield world
        assert not world.server.problems
    finally:
        await world.close()
