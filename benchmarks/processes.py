"""Processes of one server under test: start, wait, look at, leave nothing."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
_READY_S = 180
_STOP_S = 30
_JOBS_S = 60
_MARK = "DASKFLEET_BENCHMARK"


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """One server in a folder of its own; everything it starts names the folder.

    Parameters
    ----------
    directory
        Holds configuration, database, logs and clusters of this server alone.
    command
        Starts the server in the foreground.
    health_url
        Answers 200 once the server serves.
    """

    def __init__(
        self,
        directory: Path,
        command: list[str],
        health_url: str,
        *,
        environment: dict[str, str],
    ):
        self.directory = directory
        self.health_url = health_url
        self.log = directory / "server.log"
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            _MARK: str(directory),
            **environment,
        }
        # distributed takes 7 s to import instead of 1 s if nothing is cached.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=directory,
                env=environ,
                start_new_session=True,
            )
        self.process = psutil.Process(self.popen.pid)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def wait_ready(self) -> float:
        """Wait for the health route; return the seconds it took."""
        started = time.monotonic()
        while time.monotonic() - started < _READY_S:
            if self.popen.poll() is not None:
                raise RuntimeError(f"the server ended at its start:\n{self.tail()}")
            with suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(self.health_url, timeout=5).close()  # noqa: S310 - our own http URL
                return time.monotonic() - started
            time.sleep(0.05)
        raise RuntimeError(f"the server did not get ready:\n{self.tail()}")

    def cpu_s(self) -> float:
        """Return seconds of CPU of the server itself, without its children."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def memory_bytes(self) -> tuple[int, int]:
        """Return resident and private memory of the server itself."""
        memory = self.process.memory_full_info()
        return int(memory.rss), int(memory.uss)

    def wait_jobs_gone(self) -> None:
        """Wait until nothing of the last cluster runs beside what comes next."""
        deadline = time.monotonic() + _JOBS_S
        while time.monotonic() < deadline:
            left = [p for p in self._leftovers() if p.pid != self.pid]
            if all(_is_proxy(process) for process in left):
                return
            time.sleep(0.5)

    def tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def destroy(self) -> None:
        """End the server and all that its folder's name leads to."""
        with suppress(ProcessLookupError):
            self.popen.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(_STOP_S)
        deadline = time.monotonic() + _STOP_S
        while (left := self._leftovers()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        self.popen.wait(_STOP_S)

    def _leftovers(self) -> list[psutil.Process]:
        return [
            p for p in psutil.process_iter() if p.pid != os.getpid() and self._owns(p)
        ]

    def _owns(self, process: psutil.Process) -> bool:
        mark = str(self.directory)
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.Error, OSError):
            return False
        return any(mark in word for word in words)


def _is_proxy(process: psutil.Process) -> bool:
    try:
        return process.name().startswith(("traefik", "dask-gateway-pro"))
    except psutil.Error:
        return True  # gone meanwhile
