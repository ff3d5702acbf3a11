"""What ``/proc`` tells of processes on this machine: who they are, who listens.

Reading only, and blocking for microseconds; nothing here knows of Traefik.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LISTEN: Final = "0A"  # TCP_LISTEN of the kernel's tcp_states.h, in hex


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for good: a pid alone is given again to another.

    Parameters
    ----------
    pid
        Process id.
    started_ticks
        When it began, in clock ticks since the machine's boot.
    """

    pid: int
    started_ticks: int


def read_process(pid: int) -> ProcessId | None:
    """Return who has ``pid`` now; ``None`` if nobody, or only a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name, in brackets, may itself hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else ProcessId(pid, int(started))


def read_command(pid: int) -> tuple[str, ...]:
    """Return the command line of ``pid``, empty if it cannot be read."""
    try:
        text = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(part) for part in text.split(b"\0")[:-1])


def find_pids() -> Iterator[int]:
    """Yield the pids of this machine, as far as they are visible to us."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def find_listener(port: int) -> int | None:
    """Return the pid that listens on TCP ``port``; ``None`` if it cannot be told.

    Sockets of other users' processes show no owner, except to root.
    """
    inodes = set(_find_listening_inodes(port))
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return next((pid for pid in find_pids() if _holds(pid, wanted)), None)


def _find_listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            local, state, inode = fields[1], fields[3], fields[9]
            if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                yield inode


def _holds(pid: int, links: set[str]) -> bool:
    try:
        descriptors = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    return any(_read_link(descriptor) in links for descriptor in descriptors)


def _read_link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - the target is no path: socket:[1]
    except OSError:
        return None
