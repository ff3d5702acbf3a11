"""Where a job's files are, who may read them, and how they come and go.

::

    <clusters>/api-ca.crt               see `backends.local.trust`
              /<cluster>/plugin/daskfleet_scheduler_plugin.py
                        /<job>/         ours: lock, started.json, exit.json, logs
                        /<job>/files/   the job's: keys, token, scratch space

Only ``files`` and what is in it is ever given to another user. The rest stays
ours, since a user who can write there could lead us to any file by a link.
Everything here blocks.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends.database.launcher import JobRef, Role
from backends.local.accounts import Account
from backends.local.processes import Identity, read_boot_id
from backends.local.shim import EXITED, FILES, LOG, OLD_LOG, STARTED, remove_tree
from gateway.domain.errors import InvariantError
from gateway.domain.names import is_cluster_name, parse_worker_ordinal

SCHEDULER: Final = "scheduler"
PLUGIN_NAME: Final = "daskfleet_scheduler_plugin.py"

_PRIVATE: Final = 0o700
# Other users may pass through to a directory of theirs, but list nothing.
_PASSABLE: Final = 0o711

# What stands for a record that a broken disk, or a person, has made unreadable.
_DAMAGED: Final[Mapping[str, Any]] = {"message": "its record on disk is damaged"}
_NOBODY: Final[Mapping[str, Any]] = {"pid": 0, "start_time": 0}


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """The paths of one job.

    Parameters
    ----------
    path
        The job's directory; may not exist.
    """

    path: Path

    @property
    def lock(self) -> Path:
        """Locked by whoever starts the job, then by its shim until the end."""
        return self.path / "lock"

    @property
    def started(self) -> Path:
        """Who runs; exists once the job was started, for good."""
        return self.path / STARTED

    @property
    def exited(self) -> Path:
        """How it ended; exists once nothing of it is left, for good."""
        return self.path / EXITED

    @property
    def stop(self) -> Path:
        """When it was first asked to end."""
        return self.path / "stop.json"

    @property
    def logs(self) -> tuple[Path, Path]:
        """Output, older file first."""
        return self.path / OLD_LOG, self.path / LOG

    @property
    def supervisor_log(self) -> Path:
        """Errors of the shim itself."""
        return self.path / "supervisor.log"

    @property
    def files(self) -> Path:
        """What the job may read and write; gone once it has ended."""
        return self.path / FILES

    @property
    def scratch(self) -> Path:
        """Working directory and spill space."""
        return self.files / "scratch"


@dataclass(frozen=True, slots=True)
class Layout:
    """All clusters of one gateway.

    Parameters
    ----------
    root
        The clusters' directory, absolute.
    is_shared
        Whether jobs run as other users, who must get through to their files.
    """

    root: Path
    is_shared: bool = False

    def locate(self, ref: JobRef) -> JobDirectory:
        """Return the paths of a job.

        Raises
        ------
        InvariantError
            If a name could lead outside; names are checked long before.
        """
        cluster = self.locate_cluster(ref.cluster)
        if _parse_role(ref.cluster, ref.name) is not ref.role:
            raise InvariantError(f"{ref.name!r} cannot name a {ref.role} job")
        return JobDirectory(cluster / ref.name)

    def locate_cluster(self, cluster: str) -> Path:
        """Return a cluster's directory. Raises as `locate`."""
        if not is_cluster_name(cluster):
            raise InvariantError(f"{cluster!r} cannot name a cluster")
        return self.root / cluster

    def find(self) -> tuple[JobRef, ...]:
        """Return every job that has a directory, by name."""
        refs = []
        for cluster in _list_directories(self.root):
            if not is_cluster_name(cluster.name):
                continue
            for job in _list_directories(cluster):
                role = _parse_role(cluster.name, job.name)
                if role is not None:
                    refs.append(JobRef(cluster.name, role, job.name))
        return tuple(sorted(refs, key=lambda ref: (ref.cluster, ref.name)))

    def make(self, ref: JobRef) -> JobDirectory:
        """Make a job's directory, if it is not there, and return its paths."""
        job = self.locate(ref)
        if not self.root.exists():  # taken away under a running gateway
            self.make_root()
        for path in (job.path.parent, job.path):
            path.mkdir(exist_ok=True)
            path.chmod(self._mode)  # whatever the umask made of it
        return job

    def make_root(self) -> None:
        """Make the directory of all clusters, if it is not there."""
        self.root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        self.root.chmod(self._mode)

    @property
    def api_ca(self) -> Path:
        """What all schedulers trust for the API; no cluster has such a name."""
        return self.root / "api-ca.crt"

    @property
    def _mode(self) -> int:
        return _PASSABLE if self.is_shared else _PRIVATE

    def keep_plugin(self, cluster: str, source: Path) -> Path:
        """Copy the plugin into the cluster's directory, once, and return the copy.

        A copy, so that an upgrade of ours changes nothing under a scheduler
        that has yet to read it. In a directory of its own, since Dask puts
        that on the import path.
        """
        directory = self.locate_cluster(cluster) / "plugin"
        copy = directory / PLUGIN_NAME
        if not copy.exists():
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755 if self.is_shared else _PRIVATE)
            draft = directory / f"{PLUGIN_NAME}.new"
            shutil.copyfile(source, draft)
            draft.chmod(0o644 if self.is_shared else 0o600)
            draft.replace(copy)
        return copy


def fill(job: JobDirectory, texts: Mapping[str, str], account: Account | None) -> None:
    """Make the job's own directory anew, with ``texts`` by file name.

    Parameters
    ----------
    job
        Whose process has never been started.
    texts
        Contents, written as they are, readable by their owner only.
    account
        Whom to give it to; ``None`` keeps it ours.

    Notes
    -----
    What an earlier attempt left may belong to the user by now and hold links,
    so nothing of it is written through. Each thing is given away by its open
    descriptor, the directory last.
    """
    if job.files.is_symlink():
        job.files.unlink()
    remove_tree(job.files)
    job.files.mkdir(_PRIVATE)
    directory = os.open(job.files, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, text in texts.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:  # noqa: PTH123 - relative to a descriptor
                file.write(text.encode())
                _give(file.fileno(), account)
        os.mkdir(job.scratch.name, _PRIVATE, dir_fd=directory)
        scratch = os.open(job.scratch.name, os.O_DIRECTORY, dir_fd=directory)
        try:
            _give(scratch, account)
        finally:
            os.close(scratch)
        _give(directory, account)
    finally:
        os.close(directory)


@contextmanager
def try_lock(job: JobDirectory) -> Iterator[int | None]:
    """Hold the job's lock meanwhile; yields its descriptor, ``None`` if it is held.

    A process that inherits the descriptor goes on holding the lock.
    """
    descriptor = os.open(job.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def read_record(path: Path) -> Mapping[str, Any] | None:
    """Return what a record holds, ``None`` if it was never written.

    One that cannot be read is no reason to lose sight of all the other jobs:
    it holds a ``message`` that says so.
    """
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return _DAMAGED
    return record if isinstance(record, dict) else _DAMAGED


def read_start(job: JobDirectory) -> Mapping[str, Any] | None:
    """Return who runs a job, ``None`` if it was never started.

    If the record is damaged nobody runs it: as a job whose shim was killed, it
    is ended by what its processes have in their environment.
    """
    started = read_record(job.started)
    if started is None:
        return None
    try:
        Identity.parse(started["child"])
        Identity.parse(started["shim"])
        is_whole = {"boot_id", "started_ms"} <= set(started)
    except (KeyError, TypeError, ValueError):
        is_whole = False
    if is_whole:
        return started
    ids = {"boot_id": read_boot_id(), "child": _NOBODY, "shim": _NOBODY}
    return {**_DAMAGED, **ids, "started_ms": None}


def drop_files(job: JobDirectory) -> None:
    """Remove the keys and the scratch space of a job that has ended.

    What cannot be removed now is, with the whole cluster, some day.
    """
    with suppress(OSError):
        remove_tree(job.files)


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record so that a crash leaves all of it or nothing."""
    draft = path.with_name(f"{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - opened with a mode of its own
        json.dump(record, file)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)


def _give(descriptor: int, account: Account | None) -> None:
    if account is not None:
        os.fchown(descriptor, account.uid, account.gid)


def _parse_role(cluster: str, name: str) -> Role | None:
    if name == SCHEDULER:
        return Role.SCHEDULER
    if parse_worker_ordinal(cluster, name) is not None:
        return Role.WORKER
    return None


def _list_directories(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []
