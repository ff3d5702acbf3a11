"""A whole gateway as its users meet it: real processes, one public port.

Nothing here imports our packages: the gateway is what ``daskfleet gateway``
starts, and what is left of it is found by looking at the machine's processes.
"""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

PASSWORD = "let-me-in"
_READY_S = 90
_GONE_S = 90

CONFIG = """
c = get_config()
c.DaskGateway.data_directory = {data!r}
c.DaskGateway.address = "127.0.0.1:{private}"
c.Proxy.address = "127.0.0.1:{port}"
c.SimpleAuthenticator.password = {password!r}
c.LocalClusterConfig.worker_memory = "1 G"
c.LocalClusterConfig.scheduler_memory = "1 G"
c.LocalClusterConfig.cluster_max_workers = 8
"""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """One gateway with its proxy, clusters and folder.

    Parameters
    ----------
    directory
        Where everything is written; its name also finds the processes.
    extra
        More lines of configuration.
    port
        Public port; a free one by default.
    data
        Data directory, where another gateway shares it; by default one in
        ``directory``.
    prefix
        What every public path starts with.
    authority
        PEM file that vouches for the public port, which then speaks HTTPS.
    """

    def __init__(
        self,
        directory: Path,
        extra: str = "",
        port: int | None = None,
        *,
        data: Path | None = None,
        prefix: str = "",
        authority: Path | None = None,
    ):
        self.directory = directory
        self.port = port or free_port()
        self.private = free_port()
        scheme = "http" if authority is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self.port}{prefix}"
        self.trust = authority and ssl.create_default_context(cafile=authority)
        self.log = directory / "gateway.log"
        self.config = directory / "daskfleet_config.py"
        directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            CONFIG.format(
                data=str(data or directory / "data"),
                port=self.port,
                private=self.private,
                password=PASSWORD,
            )
            + extra
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Stack":
        """Start the gateway and wait until it is ready through the proxy."""
        self.spawn()
        self.wait_ready()
        return self

    def spawn(self) -> None:
        """Start the gateway without waiting."""
        environ = {k: v for k, v in os.environ.items() if k != "COVERAGE_PROCESS_START"}
        environ["DASKFLEET_TEST_STACK"] = str(self.directory)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "gateway", "-f", str(self.config)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
                env=environ,
            )

    def wait_ready(self, within: float = _READY_S) -> None:
        """Wait for 200 of ``/api/ready`` on the public port."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"gateway ended:\n{self.tail()}")
            with suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(
                    f"{self.address}/api/ready", timeout=2, context=self.trust
                ).close()
                return
            time.sleep(0.1)
        raise AssertionError(f"gateway not ready:\n{self.tail()}")

    def terminate(self, within: float = 60) -> int:
        """SIGTERM the gateway and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def kill(self) -> None:
        """SIGKILL the gateway alone, as an out-of-memory killer would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def kill_proxy(self) -> list[int]:
        """SIGKILL every Traefik of this stack; return their pids."""
        found = [p for p in self.processes() if "traefik" in _name(p)]
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return [p.pid for p in found]

    def processes(self) -> list[psutil.Process]:
        """Return all living processes of this stack, the gateway's included."""
        return find_processes(self.directory)

    def jobs(self) -> list[psutil.Process]:
        """Return all processes of clusters: schedulers, workers, supervisors."""
        gateway = self.process.pid if self.process else None
        return [
            p
            for p in self.processes()
            if p.pid != gateway and "traefik" not in _name(p)
        ]

    def tail(self, lines: int = 60) -> str:
        """Return the last lines of the gateway's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def get(
        self, path: str, *, user: str = "alice", password: str = PASSWORD
    ) -> object:
        """GET a JSON document of the API as ``user``."""
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request = urllib.request.Request(
            f"{self.address}{path}", headers={"Authorization": f"Basic {token}"}
        )
        with urllib.request.urlopen(
            request, timeout=30, context=self.trust
        ) as response:
            return json.load(response)

    def destroy(self) -> None:
        """Kill all that is left of the stack."""
        deadline = time.monotonic() + _GONE_S
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        if self.process is not None:
            self.process.wait(10)


def find_processes(directory: Path) -> list[psutil.Process]:
    """Return all living processes that were told of something in ``directory``."""
    return [p for p in psutil.process_iter() if _is_of(p, str(directory))]


def _is_of(process: psutil.Process, directory: str) -> bool:
    if process.pid == os.getpid():
        return False
    if any(directory in word for word in _cmdline(process)):
        return True
    try:
        return any(directory in value for value in process.environ().values())
    except (psutil.Error, OSError):
        return False


@contextmanager
def running_stack(
    directory: Path,
    extra: str = "",
    *,
    prefix: str = "",
    authority: Path | None = None,
) -> Iterator[Stack]:
    """Yield a started stack and leave nothing of it behind."""
    stack = Stack(directory, extra, prefix=prefix, authority=authority)
    try:
        yield stack.start()
    finally:
        stack.destroy()


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.Error, OSError):
        return []


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except (psutil.Error, OSError):
        return ""
