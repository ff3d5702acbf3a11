"""Which process a server is, so that others on the same machine can tell its end."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PARTS = 5
# Fields of /proc/<pid>/stat after the name in brackets; see proc_pid_stat(5).
_START_TIME = 19


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one machine, told from every later one with its pid.

    Parameters
    ----------
    machine
        Host name, boot and pid namespace: where the pid means something.
    pid, start_time
        The latter in clock ticks since the boot.
    """

    machine: str
    pid: int
    start_time: int

    def format(self) -> str:
        """Return it as text, for `parse`."""
        return f"{self.machine} {self.pid} {self.start_time}"

    @classmethod
    def parse(cls, text: str) -> "ProcessIdentity | None":
        """Return what `format` has written, ``None`` if it is something else."""
        parts = text.split(" ")
        if len(parts) != _PARTS or not (parts[3].isdigit() and parts[4].isdigit()):
            return None
        return cls(" ".join(parts[:3]), int(parts[3]), int(parts[4]))

    @classmethod
    def of_this_process(cls) -> "ProcessIdentity":
        """Return that of the running process. Reads files of the kernel."""
        boot = _read(Path("/proc/sys/kernel/random/boot_id"))
        try:
            namespace = str(Path("/proc/self/ns/pid").readlink())
        except OSError:
            namespace = ""
        machine = f"{socket.gethostname()} {boot or '-'} {namespace or '-'}"
        return cls(machine, os.getpid(), _read_start_time(os.getpid()) or 0)

    def is_gone(self, here: "ProcessIdentity") -> bool:
        """Return whether it has surely ended; only for processes of one machine.

        Parameters
        ----------
        here
            A process of the machine that asks. Where the kernel shows nothing
            of processes, nothing is sure.
        """
        if self.machine != here.machine or here.start_time == 0:
            return False
        return _read_start_time(self.pid) != self.start_time


def _read_start_time(pid: int) -> int | None:
    stat = _read(Path(f"/proc/{pid}/stat"))
    # The name may hold spaces and brackets itself: count from the last one.
    parts = stat.rpartition(")")[2].split()
    return int(parts[_START_TIME]) if len(parts) > _START_TIME else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
