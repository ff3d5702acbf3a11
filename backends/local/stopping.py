"""End a job and be sure that nothing of it is left. Blocks.

The shim does the work. Where it was killed, or hangs, the job's processes are
found by what the shim wrote down, and ended from here; how far that has come
stands on disk, so that it goes on after a restart of ours.
"""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from backends.local.command import MARKER
from backends.local.layout import (
    JobDirectory,
    drop_files,
    read_record,
    read_start,
    try_lock,
    write_record,
)
from backends.local.processes import (
    Identity,
    find_members,
    is_running,
    read_boot_id,
    send_signal,
)
from backends.local.shim import choose_signal

_NOBODY: Final = Identity(0, 0)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a job is given after each signal.

    Parameters
    ----------
    sigint_s, sigterm_s
        Until the next signal.
    sigkill_s
        Until the shim itself is taken to hang.
    """

    sigint_s: float = 10
    sigterm_s: float = 5
    sigkill_s: float = 5

    @property
    def total_s(self) -> float:
        """Seconds in which a shim must have ended its job."""
        return self.sigint_s + self.sigterm_s + self.sigkill_s


def stop_job(job: JobDirectory, patience: Patience) -> bool:
    """Ask a job to end; return whether nothing of it is left.

    Call it again and again: each call does what is due by then. A job that was
    never started, whose directory must exist, is closed: it never will be.
    """
    started = read_start(job)
    if started is None:
        return _close_before_start(job)
    if started["boot_id"] != read_boot_id():
        return True
    if job.exited.exists():  # the last thing that a shim writes
        return not is_running(Identity.parse(started["shim"]))
    return _stop_started(job, started, patience)


def settle_lost(job: JobDirectory, started: Mapping[str, Any]) -> bool:
    """See a job to its end whose command and shim are gone.

    What the command left behind is killed, as the shim would have done; nobody
    else would look for it. Returns whether nothing is left.
    """
    if job.exited.exists() or started["boot_id"] != read_boot_id():
        return True
    command, supervisor = (Identity.parse(started[part]) for part in ("child", "shim"))
    members = find_members((command, supervisor), command, build_marker(job))
    for member in members:
        send_signal(member, signal.SIGKILL)
    if members:
        return False
    if not job.exited.exists():
        message = started.get("message", "its supervising process was killed too")
        write_record(job.exited, {"exit_code": None, "message": message})
        drop_files(job)
    return True


def build_marker(job: JobDirectory) -> str:
    """Return what the environment of the job's processes has in it."""
    return f"{MARKER}={job.path}"


def _stop_started(
    job: JobDirectory, started: Mapping[str, Any], patience: Patience
) -> bool:
    command, supervisor = (Identity.parse(started[part]) for part in ("child", "shim"))
    asked = _record_request(job)
    elapsed_s = _read_clock() - float(asked["asked_s"])
    if is_running(supervisor) and elapsed_s < patience.total_s:
        send_signal(supervisor, signal.SIGTERM)
        return False
    members = find_members((command, supervisor), command, build_marker(job))
    if members:
        due = choose_signal(elapsed_s, patience.sigint_s, patience.sigterm_s)
        if due == signal.SIGINT and command in members:
            members = frozenset({command})  # it ends its children, as for the shim
        _press(job, asked, due, members)
        return False
    if not job.exited.exists():
        write_record(job.exited, {"exit_code": None, "stop_asked": True})
        drop_files(job)
    return True


def _close_before_start(job: JobDirectory) -> bool:
    """See to it that the job is never started; return whether nothing runs.

    Its processes are looked for all the same: its directory may have been taken
    away under them, with the record of their start.
    """
    with try_lock(job) as lock:
        if lock is None or job.started.exists():
            return False  # it is being started at this moment
        if job.exited.exists():
            return True
        members = find_members((), _NOBODY, build_marker(job))
        for member in members:
            send_signal(member, signal.SIGKILL)
        if members:
            return False
        message = "stopped before it was started"
        write_record(job.exited, {"exit_code": None, "message": message})
        drop_files(job)
        return True


def _record_request(job: JobDirectory) -> Mapping[str, Any]:
    asked = read_record(job.stop)
    if asked is None or "asked_s" not in asked:
        asked = {"asked_s": _read_clock(), "sent": None}
        write_record(job.stop, asked)
    return asked


def _press(
    job: JobDirectory,
    asked: Mapping[str, Any],
    due: signal.Signals,
    members: frozenset[Identity],
) -> None:
    """Send what is due; gentle signals once, since Dask counts them."""
    if due == asked["sent"] and due != signal.SIGKILL:
        return
    write_record(job.stop, {**asked, "sent": due})
    for member in members:
        send_signal(member, due)


def _read_clock() -> float:
    """Return seconds since the machine's start, the same for every process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
