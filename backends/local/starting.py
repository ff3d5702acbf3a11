"""Start a job once, ever. Blocks.

Whoever starts a job holds its lock, and the shim inherits it: at every instant
either nothing was started, or the lock is held, or the job's files say so.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from backends.database.launcher import JobRef, LauncherAway, StartFailed
from backends.local import shim
from backends.local.layout import JobDirectory, read_record, try_lock, write_record
from backends.local.views import describe_failure, is_final

# Interpreter, fork and two small files take 30 ms; the rest is for slow disks.
_SHIM_TIMEOUT_S: Final = 20.0
# As long as another process of ours may take to start the same job.
_LOCK_TIMEOUT_S: Final = _SHIM_TIMEOUT_S + 5
_LOCK_PERIOD_S: Final = 0.05

# Some interpreters find their own libraries by it. Nothing else passes from our
# environment to the shim, and nothing at all of the job's.
_SHIM_VARIABLES: Final = ("LD_LIBRARY_PATH",)

BuildOrder = Callable[[], Mapping[str, Any]]


def start_once(ref: JobRef, job: JobDirectory, build_order: BuildOrder) -> None:
    """Start a job, unless it was started before.

    Parameters
    ----------
    ref, job
        Which job, and its directory, which exists.
    build_order
        Writes the job's own files and returns what the shim is to do, see
        `order`; called only if the job is to be started now.

    Raises
    ------
    StartFailed
        If it can never start as it is.
    LauncherAway
        If it may start another time.
    """
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while time.monotonic() < deadline:
        with try_lock(job) as lock:
            if _was_started(job):
                return
            if lock is not None:
                order = build_order()
                failure = _run_shim(ref, job, lock, order)
                if failure is not None:
                    _raise_failure(ref, job, order, failure)
                return
        time.sleep(_LOCK_PERIOD_S)
    raise LauncherAway(
        f"{_name(ref)} has been locked for {_LOCK_TIMEOUT_S:g} s: see {job.lock}"
    )


def build_order(
    *,
    command: tuple[str, ...],
    environment: Mapping[str, str],
    working_directory: Path,
    user: Mapping[str, Any] | None,
    log_limit_bytes: int,
    sigint_timeout_s: float,
    sigterm_timeout_s: float,
) -> Mapping[str, Any]:
    """Return what the shim is to do, as JSON can hold it.

    Parameters
    ----------
    command, environment, working_directory
        Of the job's process.
    user
        ``name``, ``uid``, ``gid`` and ``groups`` to become; ``None``: stay.
    log_limit_bytes
        Most bytes of output to keep.
    sigint_timeout_s, sigterm_timeout_s
        Seconds after which the next signal follows.
    """
    return {
        "command": list(command),
        "environment": dict(environment),
        "working_directory": str(working_directory),
        "user": user,
        "log_limit_bytes": log_limit_bytes,
        "sigint_timeout_s": sigint_timeout_s,
        "sigterm_timeout_s": sigterm_timeout_s,
    }


def _was_started(job: JobDirectory) -> bool:
    """Return whether the job has begun.

    Raises
    ------
    StartFailed
        If it was tried and never can.
    """
    ended = read_record(job.exited)
    if ended is not None:
        if ended.get("failure"):
            raise StartFailed(ended.get("message") or "the command could not be run")
        return True
    return job.started.exists()


def _run_shim(
    ref: JobRef, job: JobDirectory, lock: int, order: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Hand the job to a shim; return why it could not be started, if so."""
    errors = os.open(job.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own file and interpreter
            [sys.executable, "-I", "-S", shim.__file__, str(job.path), str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=(lock,),
            cwd="/",
            env={k: os.environ[k] for k in _SHIM_VARIABLES if k in os.environ},
            start_new_session=True,
        )
    finally:
        os.close(errors)
    with process:
        try:
            reply, _ = process.communicate(
                json.dumps(order).encode(), timeout=_SHIM_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            process.kill()  # only if it has not detached; else it goes on by itself
            reply = b""
    if reply:
        failure: Mapping[str, Any] | None = json.loads(reply)["failure"]
        return failure
    if job.started.exists():
        return None
    raise LauncherAway(
        f"the supervising process of {_name(ref)} gave no answer: "
        f"see {job.supervisor_log}"
    )


def _raise_failure(
    ref: JobRef,
    job: JobDirectory,
    order: Mapping[str, Any],
    failure: Mapping[str, Any],
) -> None:
    message = describe_failure(failure, order, ref.role)
    if not is_final(failure):
        raise LauncherAway(f"{_name(ref)}: {message}")
    ended = read_record(job.exited) or {}
    write_record(job.exited, {**ended, "failure": failure, "message": message})
    raise StartFailed(message)


def _name(ref: JobRef) -> str:
    return f"job {ref.name} of cluster {ref.cluster}"
