"""Several gateways of one machine: one database, one proxy, one data directory."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from tests.support.stack import Stack, find_processes, free_port

# Appends the directory of each job to a file, then becomes the job.
_LEDGER = """#!/bin/sh
echo "$DASKFLEET_JOB" >> {ledger}
exec {python} "$@"
"""

_EXTRA = """
c.DBBackendBase.db_url = {url!r}
c.DBBackendBase.lease_duration = {lease_s}
_start = [{program!r}, "-m"]
c.LocalClusterConfig.scheduler_cmd = [*_start, "distributed.cli.dask_scheduler"]
c.LocalClusterConfig.worker_cmd = [*_start, "distributed.cli.dask_worker"]
"""
# Short, so that takeovers do not take long; the machine may be slow.
LEASE_S = 6


class Servers:
    """Two gateways, ``a`` and ``b``, behind one proxy.

    Parameters
    ----------
    directory
        Where everything is written; its name also finds the processes.
    url
        Of the database.
    extra
        More lines of both configurations.
    """

    def __init__(self, directory: Path, url: str, extra: str = "") -> None:
        self.directory = directory
        self._ledger = directory / "started.txt"
        program = directory / "start.sh"
        directory.mkdir(parents=True, exist_ok=True)
        program.write_text(_LEDGER.format(ledger=self._ledger, python=sys.executable))
        program.chmod(0o700)
        config = _EXTRA.format(url=url, lease_s=LEASE_S, program=str(program)) + extra
        port, data = free_port(), directory / "data"
        self.a, self.b = (
            Stack(directory / name, config, port, data=data) for name in "ab"
        )
        self.address = self.a.address

    def start(self) -> None:
        """Start both at once, and wait until each is ready."""
        for server in (self.a, self.b):
            server.spawn()
        for server in (self.a, self.b):
            wait_ready_itself(server)
        self.a.wait_ready()

    def jobs(self) -> list[psutil.Process]:
        """Return all processes of clusters: schedulers, workers, supervisors."""
        gateways = {s.process.pid for s in (self.a, self.b) if s.process is not None}
        return [
            p
            for p in find_processes(self.directory)
            if p.pid not in gateways and "traefik" not in _read_name(p)
        ]

    def count_starts(self) -> Counter[str]:
        """Return how often each job was ever started, as ``cluster/job``."""
        if not self._ledger.exists():
            return Counter()
        paths = map(Path, self._ledger.read_text().splitlines())
        return Counter("/".join(path.parts[-2:]) for path in paths)

    def get(self, path: str, *, user: str = "alice") -> object:
        """GET a JSON document through the proxy."""
        return self.a.get(path, user=user)

    def is_in_table(self, server: Stack) -> bool:
        """Return whether the proxy sends requests to ``server``."""
        table = self.directory / "data" / "traefik" / "routes.yml"
        return f'"{own_address(server)}"' in table.read_text()

    def tail(self) -> str:
        """Return the last lines of both logs."""
        return f"a:\n{self.a.tail()}\nb:\n{self.b.tail()}"

    def destroy(self) -> None:
        """Kill all that is left."""
        for server in (self.a, self.b):
            if server.process is not None:
                with suppress(ProcessLookupError):
                    server.process.send_signal(signal.SIGCONT)
        while left := find_processes(self.directory):
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        for server in (self.a, self.b):
            if server.process is not None:
                server.process.wait(10)


def own_address(server: Stack) -> str:
    """Return where ``server`` itself listens, not the proxy."""
    return f"http://127.0.0.1:{server.private}"


def wait_ready_itself(server: Stack) -> None:
    """Wait until ``server`` is ready at its own address, whatever the proxy says."""
    public, server.address = server.address, own_address(server)
    try:
        server.wait_ready()
    finally:
        server.address = public


@asynccontextmanager
async def running_servers(
    directory: Path, url: str, extra: str = ""
) -> AsyncIterator[Servers]:
    """Yield started servers and leave nothing of them behind."""
    servers = Servers(directory, url, extra)
    try:
        await asyncio.to_thread(servers.start)
        yield servers
    finally:
        await asyncio.to_thread(servers.destroy)


def _read_name(process: psutil.Process) -> str:
    try:
        return process.name()
    except (psutil.Error, OSError):
        return ""
