"""Supervise one job: a small process that outlives the gateway.

Started as ``python -I -S shim.py DIRECTORY LOCK_FD`` with the job as JSON on
its standard input. It detaches, starts the command as its child, keeps the
newest part of its output, ends it with growing force when it gets SIGTERM, and
exits once *nothing* of the job is left. What it knows stands in files:

``started.json``
    Who the command and the shim are. On disk before the command runs, so that
    a job cannot be started twice.
``exit.json``
    How it ended. Written last: once it is there, nothing runs any more.
``output.log``, ``output.log.1``
    Standard output and error, the newest in the first.

Keys and scratch space, the directory ``files``, go with the job.

Standard library only, and every import at the top: an upgrade may take the
files of this installation away while the process runs.

Notes
-----
The lock behind ``LOCK_FD`` was taken by whoever starts the job. A lock of
``flock`` belongs to the open file, so it passes on without a gap and falls only
when this process ends.

As a *subreaper* the shim inherits every process that the job leaves behind,
those that made a session of their own too: "no child left" is the kernel's
word that the job is over.
"""

# ruff: noqa: PTH104, PTH106, PTH123, PTH208 - pathlib and typing
# would double what the imports cost, in each of many processes

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Failure = dict[str, Any]

STARTED = "started.json"
EXITED = "exit.json"
LOG = "output.log"
OLD_LOG = "output.log.1"
FILES = "files"

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CHUNK = 65536  # the size of a pipe
_TICK_S = 0.2  # how soon a process that appeared during an escalation is hit
_ALONE_S = 3.0  # that the command has to end its children itself
_EXEC_FAILED = 127
# Room for exit.json, taken at the start: a full disk must not cost the status.
_EXIT_ROOM = 512


def main(directory: str, lock_fd: int) -> None:
    """Run one job to its end; see the module."""
    job = json.loads(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)  # the starter has no child to wait for
    os.set_inheritable(lock_fd, False)  # noqa: FBT003 - positional only
    try:
        os.chdir(directory)
        supervisor = Supervisor(job)
        failure = supervisor.start()
    except OSError as error:
        reply({"stage": "supervise", "errno": error.errno})
        return
    reply(failure)
    if failure is None:
        supervisor.run()


def reply(failure: Failure | None) -> None:
    """Tell the starter, who may be gone, and let go of its pipes."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps({"failure": failure}).encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


class Supervisor:
    """The child, its output and its end."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.child = 0
        self.status: int | None = None
        self.stop_asked: float | None = None
        self.ended: float | None = None
        self.sent: signal.Signals | None = None
        self.spread = False
        self.output, self.child_output = os.pipe()
        os.set_blocking(self.output, False)
        self.log = Log(job["log_limit_bytes"])
        self.wake_up = self.listen()

    def listen(self) -> int:
        """Turn signals into something that ``poll`` sees; return the read end."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        return reader

    def ask_to_stop(self, *_: object) -> None:
        """Begin to end the job; asking again changes nothing."""
        if self.stop_asked is None:
            self.stop_asked = time.monotonic()

    def start(self) -> Failure | None:
        """Start the command; return why it could not, or ``None``.

        The child waits until its identity is on disk. If this process dies
        before that, the child sees the end of the pipe and runs nothing.
        """
        become_subreaper()
        room = os.open(f"{EXITED}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(room, b" " * _EXIT_ROOM)
        os.close(room)
        go_reader, go_writer = os.pipe()
        error_reader, error_writer = os.pipe()
        self.child = os.fork()
        if not self.child:
            os.close(go_writer)
            run_command(self.job, go_reader, error_writer, self.child_output)
        for descriptor in (go_reader, error_writer, self.child_output):
            os.close(descriptor)
        try:
            write_durably(STARTED, self.describe())
        except OSError as error:
            os.close(go_writer)
            os.waitpid(self.child, 0)
            return {"stage": "supervise", "errno": error.errno}
        os.write(go_writer, b"g")
        os.close(go_writer)
        text = os.read(error_reader, 100).decode()
        os.close(error_reader)
        if not text:
            return None
        stage, number = text.split()
        failure = {"stage": stage, "errno": int(number)}
        os.waitpid(self.child, 0)
        self.record_end(failure)
        drop_files()
        return failure

    def describe(self) -> dict[str, Any]:
        """Return who runs here, in a way that a reused pid cannot imitate."""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        return {
            "boot_id": boot_id,
            "started_ms": int(time.time() * 1000),
            "child": {"pid": self.child, "start_time": read_start_time(self.child)},
            "shim": {"pid": os.getpid(), "start_time": read_start_time(os.getpid())},
        }

    def run(self) -> None:
        """Serve until no process of the job is left."""
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        poll.register(self.wake_up, select.POLLIN)
        alive = True
        while alive:
            timeout_ms = _TICK_S * 1000 if self.is_ending() else None
            for descriptor, _ in poll.poll(timeout_ms):
                if descriptor == self.wake_up:
                    os.read(self.wake_up, _CHUNK)
                elif self.log.take(self.output) is False:
                    poll.unregister(self.output)
            alive = self.reap()
            if alive:
                self.press()
        while self.log.take(self.output) is True:
            pass
        self.record_end(None)
        drop_files()

    def is_ending(self) -> bool:
        """Return whether the command has ended or was asked to."""
        return self.stop_asked is not None or self.ended is not None

    def reap(self) -> bool:
        """Take in the dead; return whether any process is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self.child:
                    self.status = os.waitstatus_to_exitcode(status)
                    self.ended = time.monotonic()
        except ChildProcessError:
            return False

    def press(self) -> None:
        """Send what is due now: SIGINT, later SIGTERM, in the end SIGKILL.

        The first two once: Dask takes a second one for impatience.
        """
        due = self.choose_due()
        if due == signal.SIGINT:
            self._interrupt()
            return
        if due is None or (due == self.sent and due != signal.SIGKILL):
            return
        self.sent = due
        if self.ended is None:
            signal_quietly(os.killpg, self.child, due)
        if self.ended is not None or due == signal.SIGKILL:
            for pid in find_descendants(os.getpid()):
                signal_quietly(os.kill, pid, due)

    def _interrupt(self) -> None:
        """Send SIGINT to the command, and to its children if that does not do.

        A nanny and its worker that get it together wait for each other until the
        nanny kills, 8 s later (distributed 2026.8). But a shell ends nobody.
        """
        if self.sent is None:
            self.sent = signal.SIGINT
            signal_quietly(os.kill, self.child, signal.SIGINT)
        elif not self.spread and time.monotonic() - (self.stop_asked or 0) > _ALONE_S:
            self.spread = True
            for pid in find_descendants(self.child):
                signal_quietly(os.kill, pid, signal.SIGINT)

    def choose_due(self) -> signal.Signals | None:
        """Return the signal that should have been sent by now, if any."""
        now = time.monotonic()
        sigterm_timeout_s = self.job["sigterm_timeout_s"]
        if self.ended is not None:
            # What the command left behind has nobody to say goodbye to.
            return choose_signal(now - self.ended, 0, sigterm_timeout_s)
        if self.stop_asked is not None:
            return choose_signal(
                now - self.stop_asked, self.job["sigint_timeout_s"], sigterm_timeout_s
            )
        return None

    def record_end(self, failure: Failure | None) -> None:
        """Write down how the job ended, in the room taken at the start."""
        text = json.dumps(
            {
                "exit_code": self.status,
                "ended_ms": int(time.time() * 1000),
                "stop_asked": self.stop_asked is not None,
                "failure": failure,
            }
        ).encode()
        descriptor = os.open(f"{EXITED}.new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, text)
        os.ftruncate(descriptor, len(text))
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(f"{EXITED}.new", EXITED)


class Log:
    """The newest output, in two files of half the limit each."""

    def __init__(self, limit_bytes: int) -> None:
        self.half = max(limit_bytes // 2, _CHUNK)
        self.file = open_log()
        self.size = os.fstat(self.file).st_size

    def take(self, source: int) -> bool | None:
        """Copy what ``source`` has; return ``False`` at its end, else ``True``.

        ``None`` if it has nothing now.
        """
        try:
            chunk = os.read(source, _CHUNK)
        except BlockingIOError:
            return None
        # A full disk loses lines; the job goes on.
        with contextlib.suppress(OSError):
            self.write(chunk)
        return bool(chunk)

    def write(self, chunk: bytes) -> None:
        """Append ``chunk``; the older half goes when the newer one is full."""
        if self.size and self.size + len(chunk) > self.half:
            os.rename(LOG, OLD_LOG)
            os.close(self.file)
            self.file = open_log()
            self.size = 0
        while chunk:
            written = os.write(self.file, chunk)
            self.size += written
            chunk = chunk[written:]


def open_log() -> int:
    """Open the newer file for appending."""
    return os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def run_command(job: dict[str, Any], go: int, errors: int, output: int) -> NoReturn:
    """Become the command, or report the stage that failed. Does not return."""
    stage = "session"
    try:
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if not os.read(go, 1):
            os._exit(_EXEC_FAILED)
        stage = "user"
        if job["user"] is not None:
            become_user(job["user"])
        stage = "directory"
        os.chdir(job["working_directory"])
        stage = "command"
        os.execvpe(job["command"][0], job["command"], job["environment"])  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        os.write(errors, f"{stage} {error.errno}".encode())
    except ValueError:  # a NUL in an argument or in a variable
        os.write(errors, f"{stage} {errno.EINVAL}".encode())
    finally:
        os._exit(_EXEC_FAILED)


def become_user(user: dict[str, Any]) -> None:
    """Give up every right of the gateway's user, for good."""
    # Else the user may not open /dev/stdout, which is this pipe.
    os.fchown(1, user["uid"], user["gid"])
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])


def become_subreaper() -> None:
    """Inherit the orphans of the job."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def choose_signal(
    elapsed_s: float, sigint_timeout_s: float, sigterm_timeout_s: float
) -> signal.Signals:
    """Return the signal that is due ``elapsed_s`` after the job was to end."""
    if elapsed_s < sigint_timeout_s:
        return signal.SIGINT
    if elapsed_s < sigint_timeout_s + sigterm_timeout_s:
        return signal.SIGTERM
    return signal.SIGKILL


def signal_quietly(
    send: Callable[[int, int], None], target: int, number: signal.Signals
) -> None:
    """Send a signal to what may be gone, or may have changed its user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(target, number)


def find_descendants(root: int) -> list[int]:
    """Return the pids of all processes below ``root``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(read_stat(int(name))[1]), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def read_stat(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` after the command's name."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def read_start_time(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine's start."""
    return int(read_stat(pid)[19])


def write_durably(path: str, value: object) -> None:
    """Write ``value`` as JSON so that a crash leaves all of it or nothing."""
    with open(f"{path}.new", "w", encoding="utf-8", opener=open_private) as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def drop_files() -> None:
    """Remove the keys and the scratch space of the job, which has ended.

    Spilled data may be large, and nobody asks for it again. What cannot be
    removed now is, with the whole cluster, some day.
    """
    with contextlib.suppress(OSError):
        remove_tree(FILES)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory and all below it, whatever its owner made of it.

    No link is followed, and depth costs nothing: what is nested is moved up and
    removed from there. A directory that is not there is removed already.
    """
    try:
        top = open_directory(path)
    except FileNotFoundError:
        return
    prefix = f".{os.urandom(8).hex()}"  # of a name that is not taken
    moved = 0
    while names := os.listdir(top):
        for name in names:
            if unlink(name, top):
                continue
            below = open_directory(name, top)
            for entry in os.listdir(below):
                if not unlink(entry, below):
                    os.close(open_directory(entry, below))  # or it may not move
                    target = f"{prefix}-{moved}"
                    os.rename(entry, target, src_dir_fd=below, dst_dir_fd=top)
                    moved += 1
            os.close(below)
            os.rmdir(name, dir_fd=top)
    os.close(top)
    os.rmdir(path)


def open_directory(name: str | os.PathLike[str], directory: int | None = None) -> int:
    """Open a directory, no link, and make it one that we may change."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
        descriptor = os.open(name, flags, dir_fd=directory)
    os.fchmod(descriptor, 0o700)
    return descriptor


def unlink(name: str, directory: int) -> bool:
    """Remove what is no directory; return whether it was none."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
