"""What a job looks like from outside, read from its files and ``/proc``. Blocks."""

import os
import signal
from collections.abc import Mapping
from typing import Any, Final

from backends.database.launcher import JobState, JobView, Role
from backends.local.command import HOST
from backends.local.layout import JobDirectory, read_record, read_start
from backends.local.logs import read_tail
from backends.local.processes import Identity, is_running, read_boot_id
from backends.local.stopping import settle_lost

TAIL_LINES: Final = 20
# The tail is kept in the store and sent in an error: no line fills either.
_TAIL_LINE_CHARACTERS: Final = 2000

_SUPERVISE: Final = "supervise"


def view_job(job: JobDirectory) -> JobView:
    """Return a job as it is now. Costs a few reads of small files.

    A job whose shim was killed is ended on the way: see `settle_lost`.
    """
    started = read_start(job)
    # Nearly always so; and while the command lives there is no record of an end.
    if started is not None and _lives(started, "child"):
        return _show_running(started, frozenset({started["child"]["pid"]}))
    ended = read_record(job.exited)
    if ended is None:
        if started is None:
            return JobView(JobState.ABSENT)
        # The shim takes away what the command has left behind.
        if _lives(started, "shim") or not settle_lost(job, started):
            return _show_running(started, frozenset())
        ended = read_record(job.exited) or {}
    return JobView(
        JobState.ENDED,
        exit_code=ended.get("exit_code"),
        started_ms=None if started is None else started["started_ms"],
        host=HOST,
        message=_describe_end(ended, started),
        log_tail=tuple(
            line[:_TAIL_LINE_CHARACTERS] for line in read_tail(job.logs, TAIL_LINES)
        ),
    )


def is_alive(started: Mapping[str, Any]) -> bool:
    """Return whether the command or its shim runs, by the record of the start."""
    return _lives(started, "child") or _lives(started, "shim")


def is_final(failure: Mapping[str, Any]) -> bool:
    """Return whether a start that failed so would fail again."""
    return bool(failure["stage"] != _SUPERVISE)


def describe_failure(
    failure: Mapping[str, Any], order: Mapping[str, Any], role: Role
) -> str:
    """Say why a command could not be started, and what to do.

    Parameters
    ----------
    failure
        Stage and error number, from the shim.
    order
        What the shim was to start.
    role
        Of the job.
    """
    cause = os.strerror(failure["errno"])
    match failure["stage"]:
        case "command":
            path = order["environment"].get("PATH", "")
            return (
                f"cannot run {order['command'][0]!r}: {cause} (PATH is {path!r}); set "
                f"c.LocalClusterConfig.{role}_cmd to a command that the gateway's "
                "machine has, or leave it unset"
            )
        case "directory":
            return (
                f"cannot enter working directory {order['working_directory']!r}: "
                f"{cause}; set c.LocalClusterConfig.working_directory to one that the "
                "cluster's user may enter"
            )
        case "user":
            return (
                f"cannot become user {order['user']['name']!r}: {cause}; run the "
                "gateway as root, or use UnsafeLocalBackend"
            )
        case stage:
            return f"cannot start the {role} ({stage}): {cause}"


def _lives(started: Mapping[str, Any], part: str) -> bool:
    return started["boot_id"] == read_boot_id() and is_running(
        Identity.parse(started[part])
    )


def _show_running(started: Mapping[str, Any], pids: frozenset[int]) -> JobView:
    return JobView(
        JobState.RUNNING, started_ms=started["started_ms"], host=HOST, pids=pids
    )


def _describe_end(ended: Mapping[str, Any], started: Mapping[str, Any] | None) -> str:
    """Return what the exit status alone does not say."""
    code = ended.get("exit_code")
    if message := ended.get("message"):
        text = str(message)
    elif ended.get("stop_asked"):
        text = "stopped on request"
    elif failure := ended.get("failure"):
        cause = os.strerror(failure["errno"])
        text = f"could not be started ({failure['stage']}): {cause}"
    elif code == -signal.SIGKILL:
        text = "the machine may have run out of memory"
    elif code is not None:
        text = ""
    elif started is not None and started["boot_id"] != read_boot_id():
        text = "the gateway's machine was restarted"
    else:
        text = "its supervising process was killed too"
    return text
