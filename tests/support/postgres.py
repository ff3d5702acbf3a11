"""A PostgreSQL of the test session's own, which tests may stop, kill and freeze."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil

_BINARIES = "/usr/lib/postgresql"
_ACCOUNT = "postgres"
_START_S = 60


def find_binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL of this machine."""
    found = sorted(
        Path(_BINARIES).glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    if found:
        return found[-1].parent
    beside = shutil.which("initdb")
    return Path(beside).parent if beside else None


class PostgresServer:
    """One server with its own data, on a port of 127.0.0.1.

    Parameters
    ----------
    binaries
        Folder of ``initdb`` and ``postgres``.
    directory
        Of the data; owned by the account that runs it, which is not root.
    """

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._binaries = binaries
        self._directory = directory
        self._data = directory / "data"
        self._log = directory / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _find_free_port()
        shutil.chown(directory, *_account())
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "daskfleet")

    def start(self) -> "PostgresServer":
        """Start it and wait until it answers."""
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "100",
            # The machine does not lose power here; a kill -9 loses nothing.
            "fsync": "off",
        }
        words = [f"-c{name}={value}" for name, value in options.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, *words],
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **_as_account(),
            )
        self._wait_ready()
        return self

    def stop(self) -> None:
        """Stop it at once and in order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_S)

    def kill(self) -> None:
        """Kill it with all its processes."""
        for process in self._all():
            process.kill()
        if self._process is not None:
            self._process.wait(_START_S)

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        for process in self._all():
            process.suspend()

    def resume(self) -> None:
        """Let it go on."""
        for process in self._all():
            process.resume()

    def create_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"d{uuid4().hex}"
        self._run(
            "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "daskfleet", name
        )
        return f"postgresql://daskfleet@127.0.0.1:{self.port}/{name}"

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _START_S
        words = ("-h", "127.0.0.1", "-p", str(self.port), "-d", "postgres")
        while True:
            if (
                subprocess.run(
                    [self._binaries / "pg_isready", "-q", *words], check=False
                ).returncode
                == 0
            ):
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"no PostgreSQL:\n{self._log.read_text()}")
            time.sleep(0.05)

    def _all(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        parent = psutil.Process(self._process.pid)
        return [parent, *parent.children(recursive=True)]

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **_as_account(),
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Yield a started server and leave nothing of it."""
    binaries = find_binaries()
    assert binaries is not None, "install the Debian package postgresql"
    directory = Path(tempfile.mkdtemp(prefix="daskfleet-postgres-"))
    try:
        server = PostgresServer(binaries, directory)
        try:
            yield server.start()
        finally:
            server.resume()
            server.kill()
    finally:
        shutil.rmtree(directory)


def _account() -> tuple[str | int, str | int]:
    # PostgreSQL refuses to run as root.
    return (_ACCOUNT, _ACCOUNT) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def _as_account() -> dict[str, object]:
    if os.geteuid() != 0:
        return {}
    return {"user": _ACCOUNT, "group": _ACCOUNT, "extra_groups": []}


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
