"""Processes of this machine as ``/proc`` shows them, told apart for certain.

A pid alone names nobody: it is given away again. A pid *with its start time*
names one process until the machine restarts. Linux only.
"""

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

_PROC: Final = Path("/proc")
_LISTENING: Final = "0A"  # include/net/tcp_states.h
# Addresses that a connection to 127.0.0.1 can reach, as /proc/net writes them
# on little-endian machines: wildcard and loopback, for IPv4 and IPv6.
_REACHABLE: Final = frozenset(
    {
        "00000000",
        "0100007F",
        "0" * 32,
        "00000000000000000000000001000000",
        "0000000000000000FFFF00000100007F",
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for as long as the machine runs.

    Parameters
    ----------
    pid
        Process id.
    start_time
        Field 22 of ``/proc/PID/stat``: clock ticks since the machine's start.
    """

    pid: int
    start_time: int

    @classmethod
    def parse(cls, record: Mapping[str, Any]) -> Self:
        """Return the identity that the shim wrote down."""
        return cls(int(record["pid"]), int(record["start_time"]))


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the table."""

    identity: Identity
    parent: int
    session: int
    is_dead: bool  # a zombie: ended, not yet waited for


def read_process(pid: int) -> Process | None:
    """Return the process that has ``pid`` now."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name may hold spaces and brackets; the last one ends it.
    fields = text.rpartition(b")")[2].split()
    return Process(
        Identity(pid, int(fields[19])),
        parent=int(fields[1]),
        session=int(fields[3]),
        is_dead=fields[0] in (b"Z", b"X"),
    )


def is_running(identity: Identity) -> bool:
    """Return whether that very process is there and has not ended."""
    process = read_process(identity.pid)
    return process is not None and process.identity == identity and not process.is_dead


def send_signal(identity: Identity, number: signal.Signals) -> None:
    """Signal that very process, if it is there and ours to signal.

    Through a descriptor of the process: a pid may change hands between a look
    and a ``kill``.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_running(identity):
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


@cache
def read_boot_id() -> str:
    """Return what is different after each start of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_processes() -> Mapping[int, Process]:
    """Return every process, by pid. Costs about 20 us for each."""
    found = (read_process(int(path.name)) for path in _PROC.glob("[0-9]*"))
    return {process.identity.pid: process for process in found if process is not None}


def find_members(
    roots: Iterable[Identity], session: Identity, marker: str
) -> frozenset[Identity]:
    """Return the processes of a job that have not ended.

    Parameters
    ----------
    roots
        Processes whose descendants belong to the job, with themselves.
    session
        Leader of the job's session. Its number counts only while that very
        process leads it, since numbers come back.
    marker
        ``NAME=value`` that the job's first process had in its environment;
        finds those that left the session and lost their parents.
    """
    table = read_processes()
    alive_roots = {
        root.pid
        for root in roots
        if root.pid in table and table[root.pid].identity == root
    }
    leader = table.get(session.pid)
    has_session = leader is not None and leader.identity == session
    members = _find_descendants(table, alive_roots) | alive_roots
    for pid, process in table.items():
        in_session = has_session and process.session == session.pid
        if in_session or (pid not in members and _has_variable(pid, marker)):
            members.add(pid)
    return frozenset(table[pid].identity for pid in members if not table[pid].is_dead)


def listens_on(pids: Iterable[int], port: int) -> bool | None:
    """Return whether every socket that 127.0.0.1 reaches at ``port`` is theirs.

    ``None`` if the processes do not let us look.
    """
    wanted = _find_listeners(port)
    if not wanted:
        return False
    owned: set[str] = set()
    refused = False
    for pid in pids:
        try:
            owned |= _read_sockets(pid)
        except PermissionError:
            refused = True
        except (FileNotFoundError, ProcessLookupError):
            continue
    if wanted <= owned:
        return True
    return None if refused else False


def _find_descendants(table: Mapping[int, Process], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _has_variable(pid: int, marker: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # ended, or another user's
        return False
    return os.fsencode(marker) in environment.split(b"\0")


def _find_listeners(port: int) -> set[str]:
    """Return the inodes of listening TCP sockets at ``port``."""
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        path = _PROC / "self/net" / table
        if not path.exists():  # a kernel without IPv6
            continue
        for line in path.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if (
                fields[3] == _LISTENING
                and int(number, 16) == port
                and address in _REACHABLE
            ):
                found.add(fields[9])
    return found


def _read_sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    found: set[str] = set()
    for path in (_PROC / str(pid) / "fd").iterdir():
        try:
            target = str(path.readlink())
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found
