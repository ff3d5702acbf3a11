"""A PostgreSQL of the test session's own, which tests may stop, kill and freeze."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil

_BINARIES = "/usr/lib/postgresql"
_ACCOUNT = "postgres"
_START_S = 60
_PREFIX = "daskfleet-postgres-"
_OWNER = "owner"


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
        self._process: psutil.Process | None = None
        self.port = _find_free_port()
        shutil.chown(directory, *_account())
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "daskfleet")

    def start(self) -> "PostgresServer":
        """Start it and wait until it answers."""
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "''",
            "max_connections": "100",
            # The machine does not lose power here; a kill -9 loses nothing.
            "fsync": "off",
        }
        words = " ".join(f"-c{name}={value}" for name, value in options.items())
        # A daemon, no child of ours: it outlives the test that first asked for it.
        self._run(
            *("pg_ctl", "start", "-w", "-t", str(_START_S), "-D", str(self._data)),
            *("-l", str(self._log), "-o", words),
        )
        self._process = psutil.Process(self._read_pid())
        return self

    def stop(self) -> None:
        """Stop it at once and in order."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self._process.send_signal(signal.SIGINT)
            psutil.wait_procs([self._process], timeout=_START_S)

    def kill(self) -> None:
        """Kill it with all its processes."""
        found = self._all()
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found, timeout=_START_S)

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        for process in self._all():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def resume(self) -> None:
        """Let it go on."""
        for process in self._all():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def create_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"d{uuid4().hex}"
        self._run(
            "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "daskfleet", name
        )
        return f"postgresql://daskfleet@127.0.0.1:{self.port}/{name}"

    def _read_pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _all(self) -> list[psutil.Process]:
        if self._process is None or not self._process.is_running():
            return []
        return [self._process, *self._process.children(recursive=True)]

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a pipe would stay open in the server
            stderr=subprocess.DEVNULL,
            check=False,
            cwd="/",
            **_as_account(),
        )
        assert done.returncode == 0, (program, self._log.exists() and self.tail())

    def tail(self) -> str:
        """Return the end of the server's log."""
        return self._log.read_text(errors="replace")[-4000:]


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Yield a started server and leave nothing of it."""
    binaries = find_binaries()
    assert binaries is not None, "install the Debian package postgresql"
    _remove_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    me = psutil.Process()
    (directory / _OWNER).write_text(f"{me.pid} {me.create_time()}")
    try:
        server = PostgresServer(binaries, directory)
        try:
            yield server.start()
        finally:
            server.resume()
            server.kill()
    finally:
        shutil.rmtree(directory)


def _remove_leftovers() -> None:
    """End servers whose test session was killed before it could."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError, psutil.NoSuchProcess):
            pid, created = (directory / _OWNER).read_text().split()
            if psutil.pid_exists(int(pid)) and (
                psutil.Process(int(pid)).create_time() == float(created)
            ):
                continue
            _kill_server(directory)
            shutil.rmtree(directory)


def _kill_server(directory: Path) -> None:
    pid_file = directory / "data/postmaster.pid"
    if not pid_file.exists():
        return
    server = psutil.Process(int(pid_file.read_text().split()[0]))
    if str(directory / "data") in server.cmdline():  # and nobody who has its number
        server.kill()
        server.wait(_START_S)


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
