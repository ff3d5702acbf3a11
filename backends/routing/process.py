"""Traefik as a process that outlives us: started, adopted, replaced, watched.

One per data directory, whichever gateway of this machine started it. What it
serves is the business of `table`; how it is started, of `static`.
"""

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from backends.routing.files import (
    FileLock,
    make_directory,
    read_text,
    write_atomically,
)
from backends.routing.proc import ProcessId, find_pids, read_command, read_process
from backends.routing.program import (
    find_free_port,
    find_traefik,
    format_complaints,
    require_addresses,
)
from backends.routing.readiness import is_alive, serves_table, wait_for_exit
from backends.routing.settings import RoutingSettings
from backends.routing.static import build_static
from gateway.aio.backoff import Backoff
from gateway.domain.errors import BackendError, ConfigError

log = structlog.get_logger(__name__)

_READY_S: Final = 30.0  # 0.2 s when idle; a loaded machine reads 180 MB slowly
_ADOPT_S: Final = 10.0
# Traefik gives open requests 5 s.
_TERM_S: Final = 10.0
_POLL_S: Final = 0.05
# One that dies sooner than this, twice, would die again at once.
_SHORT_S: Final = 10.0
_RESTART_BASE_S: Final = 0.5
_RESTART_CAP_S: Final = 10.0
_TAIL_BYTES: Final = 4096

# No TRAEFIK_*, which would be read as configuration, and no HTTP_PROXY, which
# would lead the traffic of remote schedulers astray.
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Running:
    """A Traefik that runs.

    Parameters
    ----------
    process
        Who it is.
    static
        Its static configuration; the name holds a digest of the content.
    internal_port
        Where it answers us, on loopback.
    """

    process: ProcessId
    static: Path
    internal_port: int


class TraefikProcess:
    """The Traefik of one data directory.

    Parameters
    ----------
    settings
        Checked.
    prepare
        Writes the dynamic file for an internal port. Blocking; called before
        Traefik starts and when one is adopted.
    """

    def __init__(
        self, settings: RoutingSettings, prepare: Callable[[int], None]
    ) -> None:
        self._settings = settings
        self._prepare = prepare
        self._directory = settings.directory
        self._state_path = self._directory / "process.json"
        self._running: Running | None = None

    @property
    def running(self) -> Running | None:
        """The Traefik that was last started or adopted; it may have died since."""
        return self._running

    async def ensure(self, *, replace: bool = True) -> Running:
        """Return a Traefik that serves: the one that runs, or a new one.

        Parameters
        ----------
        replace
            End one whose static configuration is not ours. False after a
            death: another gateway may have replaced it on purpose.

        Raises
        ------
        ConfigError
            If there is no Traefik, it is too old, or an address is taken.
        BackendError
            If it does not come up for another reason.
        """
        await asyncio.to_thread(make_directory, self._directory)
        async with _hold_lock(self._directory / "traefik.lock"):
            found = await asyncio.to_thread(self._find_running)
            if found is not None:
                ours = found.static == self._static_path(found.internal_port)
                if (ours or not replace) and await _becomes_ready(found, _ADOPT_S):
                    await asyncio.to_thread(self._adopt, found)
                    log.info("traefik adopted", pid=found.process.pid)
                    return found
                log.info("traefik replaced", pid=found.process.pid, same_config=ours)
                await _end(found.process)
            port = None if found is None else found.internal_port
            return await self._start(port)

    async def keep(self) -> None:
        """Start it again each time it dies, at once, then with a backoff. Endless."""
        backoff = Backoff(_RESTART_BASE_S, _RESTART_CAP_S)
        loop = asyncio.get_running_loop()
        quick_deaths = 0
        while True:
            running = self._running or await self.ensure(replace=False)
            since = loop.time()
            await wait_for_exit(running.process)
            # Should a start fail below, our supervisor calls us again.
            self._running = None
            quick_deaths = quick_deaths + 1 if loop.time() - since < _SHORT_S else 0
            delay_s = backoff.delay_s(quick_deaths - 1) if quick_deaths > 1 else 0.0
            log.warning(
                "traefik died", pid=running.process.pid, restart_in_s=round(delay_s, 3)
            )
            await asyncio.sleep(delay_s)

    async def stop(self) -> None:
        """End Traefik, whoever started it: for a demo's and a test's end."""
        async with _hold_lock(self._directory / "traefik.lock"):
            found = await asyncio.to_thread(self._find_running)
            if found is not None:
                await _end(found.process)
            self._running = None
            await asyncio.to_thread(self._state_path.unlink, missing_ok=True)

    def _adopt(self, found: Running) -> None:
        # One that was found by its command line has no state file.
        self._write_state(found)
        self._prepare(found.internal_port)
        self._running = found

    async def _start(self, port: int | None) -> Running:
        running = await asyncio.to_thread(self._spawn, port)
        if not await _becomes_ready(running, _READY_S):
            await _end(running.process)
            reason = await asyncio.to_thread(self._read_last_words)
            raise BackendError(f"Traefik does not come up: {reason}")
        self._running = running
        log.info("traefik started", pid=running.process.pid)
        return running

    def _spawn(self, port: int | None) -> Running:
        settings = self._settings
        program = find_traefik(settings.binary)
        require_addresses(
            {
                "Proxy.address": settings.address,
                "Proxy.tcp_address": settings.dask_address,
            }
        )
        internal_port = find_free_port(port)
        static = self._static_path(internal_port)
        for old in self._directory.glob("static-*.yml"):
            old.unlink()
        write_atomically(static, _format(build_static(settings, internal_port)))
        self._prepare(internal_port)
        pid = _spawn_detached(
            program, f"--configFile={static}", self._directory / "stderr.log"
        )
        process = read_process(pid)
        if process is None:
            raise BackendError(f"Traefik ended at once: {self._read_last_words()}")
        running = Running(process, static, internal_port)
        self._write_state(running)
        return running

    def _static_path(self, internal_port: int) -> Path:
        text = _format(build_static(self._settings, internal_port))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self._directory / f"static-{digest}.yml"

    def _find_running(self) -> Running | None:
        """Find it by the state file; by its command line if we died before that."""
        state = self._read_state()
        if state is not None and read_process(state.pid) == state:
            found = self._recognise(state.pid)
            if found is not None:
                return found
        candidates = (self._recognise(pid) for pid in find_pids())
        return next((found for found in candidates if found is not None), None)

    def _recognise(self, pid: int) -> Running | None:
        static = self._read_static_argument(pid)
        if static is None:
            return None
        process, port = read_process(pid), _read_internal_port(static)
        if process is None or port is None:
            return None
        return Running(process, static, port)

    def _read_static_argument(self, pid: int) -> Path | None:
        prefix = f"--configFile={self._directory}/static-"
        for argument in read_command(pid)[1:]:
            if argument.startswith(prefix):
                return Path(argument.removeprefix("--configFile="))
        return None

    def _read_state(self) -> ProcessId | None:
        try:
            state = json.loads(read_text(self._state_path) or "")
            return ProcessId(state["pid"], state["started_ticks"])
        except (ValueError, KeyError, TypeError):
            return None

    def _write_state(self, running: Running) -> None:
        process = running.process
        state = {"pid": process.pid, "started_ticks": process.started_ticks}
        write_atomically(self._state_path, _format(state))

    def _read_last_words(self) -> str:
        """Return the end of its output: why it did not come up."""
        text = ""
        for name in ("traefik.log", "stderr.log"):
            with suppress(OSError):
                tail = (self._directory / name).read_bytes()[-_TAIL_BYTES:]
                text += tail.decode(errors="replace")
        return format_complaints(text)


@asynccontextmanager
async def _hold_lock(path: Path) -> AsyncIterator[None]:
    """Hold a lock among all gateways of this machine, without blocking the loop."""
    lock = await asyncio.to_thread(FileLock, path)
    try:
        while not lock.try_to_take():  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(_POLL_S)
        yield
    finally:
        lock.close()


async def _becomes_ready(running: Running, within_s: float) -> bool:
    """Return whether it serves its table within the time, while it lives."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while loop.time() < deadline:
        if await serves_table(running.internal_port):
            return True
        if not await is_alive(running.process):
            return False
        await asyncio.sleep(_POLL_S)
    return False


async def _end(process: ProcessId) -> None:
    """End a process and return once it is gone: asked first, then killed."""
    for number, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, None)):
        if await is_alive(process):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await wait_for_exit(process)
                return


def _spawn_detached(program: Path, argument: str, output: Path) -> int:
    """Start ``program`` in a session of its own and return its pid.

    Not by `subprocess`, whose objects want to be waited for: this child is
    meant to be left behind.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Panics end here; the log proper is bounded by Traefik itself.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        return os.posix_spawn(
            program,
            [str(program), argument],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise ConfigError([f"cannot run {program}: {error.strerror}"]) from error


def _read_internal_port(static: Path) -> int | None:
    try:
        content: Any = json.loads(read_text(static) or "")
        return int(content["entryPoints"]["internal"]["address"].rpartition(":")[2])
    except (ValueError, KeyError, TypeError):
        return None


def _format(content: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps(content, indent=1)
