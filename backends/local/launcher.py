"""Run schedulers and workers as processes of this machine.

Nothing is kept in memory: every answer is read from the job's directory and
from ``/proc``, so any process of ours can go on where another one was killed.
What blocks runs in threads of the launcher's own.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import structlog
from typing_extensions import override

import gateway
from backends.database.launcher import (
    JobRef,
    JobSpec,
    JobState,
    JobView,
    Launcher,
    LauncherAway,
    Role,
)
from backends.local import command
from backends.local.accounts import Account
from backends.local.layout import (
    JobDirectory,
    Layout,
    fill,
    read_start,
    try_lock,
)
from backends.local.logs import LogReader
from backends.local.processes import Identity, find_members, listens_on
from backends.local.shim import remove_tree
from backends.local.starting import build_order, start_once
from backends.local.stopping import Patience, build_marker, stop_job
from backends.local.trust import TrustCopy
from backends.local.views import is_alive, view_job
from gateway.aio.tasks import Supervisor
from gateway.domain.errors import ConfigError

DEFAULT_LOG_LIMIT: Final = 10 * 2**20
# What the peer passes on, so that sites' commands find their programs.
INHERITED: Final = (
    "PATH",
    "PYTHONPATH",
    "CONDA_ROOT",
    "CONDA_DEFAULT_ENV",
    "VIRTUAL_ENV",
    "LANG",
    "LC_ALL",
)

PLUGIN: Final = Path(gateway.__file__).with_name("scheduler_plugin.py")

# Starting waits for a shim, mostly idle; few keep a machine from thrashing.
_THREADS: Final = 4
_FOLLOW_PERIOD_S: Final = 0.5
_TRUST_PERIOD_S: Final = 5.0

_P = ParamSpec("_P")
_T = TypeVar("_T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How processes are run.

    Parameters
    ----------
    directory
        Where clusters keep their files, absolute.
    inherited_environment
        Names of our own variables that jobs get too.
    patience
        How long a job is given to end.
    log_limit_bytes
        Most output kept of each job; what is older goes.
    find_account
        Returns the account that a user's jobs run as, or raises `StartFailed`;
        ``None``: all run as the gateway's own user.
    api_ca_file
        PEM file that schedulers trust for the API, and nothing else; ``None``:
        what the machine trusts. They are told within seconds when it changes.
    plugin
        File that every scheduler loads.
    """

    directory: Path
    inherited_environment: tuple[str, ...] = INHERITED
    patience: Patience = field(default_factory=Patience)
    log_limit_bytes: int = DEFAULT_LOG_LIMIT
    find_account: Callable[[str], Account] | None = None
    api_ca_file: Path | None = None
    plugin: Path = PLUGIN


class ProcessLauncher(Launcher):
    """Jobs are processes of this machine, supervised by `backends.local.shim`.

    Parameters
    ----------
    settings
        How to run them.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._layout = Layout(
            settings.directory, is_shared=settings.find_account is not None
        )
        source = settings.api_ca_file
        self._trust = None if source is None else TrustCopy(source, self._layout.api_ca)
        self._supervisor = Supervisor()
        self._pool = ThreadPoolExecutor(_THREADS, "local-launcher")

    @override
    async def setup(self) -> None:
        await self._run(self._check)
        if self._trust is not None:
            self._supervisor.start("follow certificate", self._follow_certificate)

    @override
    async def cleanup(self) -> None:
        await self._supervisor.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    @override
    async def start(self, spec: JobSpec) -> None:
        await self._run(self._start, spec)

    @override
    async def observe(self, refs: Sequence[JobRef]) -> Mapping[JobRef, JobView]:
        return await self._run(
            lambda: {ref: view_job(self._layout.locate(ref)) for ref in refs}
        )

    @override
    async def stop(self, ref: JobRef) -> bool:
        return await self._run(self._stop, ref)

    @override
    async def forget(self, cluster: str) -> None:
        await self._run(self._forget, cluster)

    @override
    async def read_logs(
        self, ref: JobRef, *, tail: int, follow: bool
    ) -> AsyncIterator[str]:
        job = self._layout.locate(ref)
        reader = await self._run(lambda: LogReader(job.logs, tail=tail))
        try:
            has_ended = False
            while not has_ended:
                # Asked before reading: what it wrote until its end is read too.
                has_ended = not follow or await self._run(_has_ended, job)
                for line in await self._run(reader.read, is_last=has_ended):
                    yield line
                if not has_ended:
                    await asyncio.sleep(_FOLLOW_PERIOD_S)
        finally:
            reader.close()

    @override
    async def find_jobs(self) -> Sequence[JobRef]:
        return await self._run(self._layout.find)

    @override
    async def owns_port(self, ref: JobRef, port: int) -> bool | None:
        return await self._run(_owns_port, self._layout.locate(ref), port)

    async def _run(
        self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call ``function`` in a thread of ours; a system's error is `LauncherAway`."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._pool, lambda: function(*args, **kwargs)
            )
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise LauncherAway(
                f"local launcher: {error.strerror or error}{where}"
            ) from error

    def _check(self) -> None:
        problems = []
        directory = self._settings.directory
        try:
            self._layout.make_root()
        except OSError as error:
            problems.append(
                f"clusters_directory {directory} cannot be used: {error.strerror}"
            )
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError:
            problems.append("the local backend needs Linux 5.3 or newer")
        if not self._settings.plugin.is_file():
            problems.append(
                f"the scheduler's plugin is missing: {self._settings.plugin}"
            )
        if self._layout.is_shared:
            problems += _check_shared(directory)
        if problems:
            raise ConfigError(problems)

    def _start(self, spec: JobSpec) -> None:
        find_account = self._settings.find_account
        account = find_account(spec.owner) if find_account is not None else None
        job = self._layout.make(spec.ref)
        start_once(spec.ref, job, lambda: self._prepare(spec, job, account))

    def _stop(self, ref: JobRef) -> bool:
        # Made for a job that never was, too: it must not be started after this.
        return stop_job(self._layout.make(ref), self._settings.patience)

    def _prepare(
        self, spec: JobSpec, job: JobDirectory, account: Account | None
    ) -> Mapping[str, Any]:
        """Write a job's files and return the shim's order."""
        settings = self._settings
        plugin = None
        if spec.ref.role is Role.SCHEDULER:
            plugin = self._layout.keep_plugin(spec.ref.cluster, settings.plugin)
            self._refresh_trust()  # it may have to be there for the first time
        fill(job, command.build_files(spec), account)
        for name in command.find_ignored(spec):
            log.warning(
                "environment variable of the configuration ignored",
                cluster=spec.ref.cluster,
                variable=name,
            )
        names = settings.inherited_environment
        chosen = spec.config.extra.get("working_directory")
        return build_order(
            command=command.build_command(spec, plugin=plugin),
            environment=command.build_environment(
                spec,
                directory=job.files,
                api_ca_file=None if self._trust is None else self._trust.path,
                job_id=str(job.path),
                inherited={k: os.environ[k] for k in names if k in os.environ},
                account=account,
            ),
            working_directory=Path(chosen) if chosen else job.scratch,
            user=None if account is None else _format_user(account),
            log_limit_bytes=settings.log_limit_bytes,
            sigint_timeout_s=settings.patience.sigint_s,
            sigterm_timeout_s=settings.patience.sigterm_s,
        )

    async def _follow_certificate(self) -> None:
        while True:
            try:
                await self._run(self._refresh_trust)
            except LauncherAway as error:
                log.warning("certificate not copied for schedulers", error=str(error))
            await asyncio.sleep(_TRUST_PERIOD_S)

    def _refresh_trust(self) -> None:
        if self._trust is not None:
            self._trust.refresh()

    def _forget(self, cluster: str) -> None:
        for ref in self._layout.find():
            if ref.cluster == cluster:
                _refuse_running(ref, self._layout.locate(ref))
        remove_tree(self._layout.locate_cluster(cluster))


def _check_shared(directory: Path) -> list[str]:
    problems = []
    if os.geteuid() != 0:
        problems.append(
            "LocalBackend starts jobs as other users and must run as root; "
            "use UnsafeLocalBackend to run them all as the gateway's user"
        )
    closed = [
        str(path)
        for path in directory.parents
        if path.exists() and not path.stat().st_mode & 0o001
    ]
    if closed:
        problems.append(
            f"users cannot reach their files in {directory}: let others pass through "
            f"{', '.join(closed)} (chmod o+x), or set c.LocalBackend.clusters_directory"
        )
    return problems


def _refuse_running(ref: JobRef, job: JobDirectory) -> None:
    """Refuse to forget what may still run: its files are how it is found."""
    if view_job(job).state is JobState.RUNNING:
        raise LauncherAway(f"job {ref.name} of cluster {ref.cluster} still runs")
    with try_lock(job) as lock:
        if lock is None:
            raise LauncherAway(f"job {ref.name} of cluster {ref.cluster} is locked")


def _has_ended(job: JobDirectory) -> bool:
    return view_job(job).state is not JobState.RUNNING


def _owns_port(job: JobDirectory, port: int) -> bool | None:
    started = read_start(job)
    if started is None or not is_alive(started):
        return False
    leader, supervisor = (Identity.parse(started[part]) for part in ("child", "shim"))
    # The command itself in nearly every case; all the others cost a long look.
    if listens_on((leader.pid,), port):
        return True
    members = find_members((leader, supervisor), leader, build_marker(job))
    return listens_on((member.pid for member in members), port)


def _format_user(account: Account) -> Mapping[str, Any]:
    return {
        "name": account.name,
        "uid": account.uid,
        "gid": account.gid,
        "groups": account.groups,
    }
