"""What runs of one cluster, and what the gateway's log tells of its steps.

Found on the machine and in the log, without asking the gateway.
"""

import json
import time
from collections.abc import Iterator

import psutil

from tests.support.stack import Stack

# What a reconcile does, in the words of the log at level DEBUG.
_STEPS = frozenset({"change written", "job started", "job asked to end"})
# So long after the last one there is none to come: a worker needs some seconds
# to start, or to end.
_QUIET_S = 15


def find_schedulers(stack: Stack, cluster: str) -> list[int]:
    """Return the pids of the processes that are a scheduler of ``cluster``."""
    return [
        pid
        for pid, words in _commands(stack)
        if "distributed.cli.dask_scheduler" in words and cluster in " ".join(words)
    ]


def find_workers(stack: Stack, cluster: str) -> dict[str, list[int]]:
    """Return the pids of the commands of workers (their nannies) by worker's name."""
    found: dict[str, list[int]] = {}
    for pid, words in _commands(stack):
        if "distributed.cli.dask_worker" in words and "--name" in words:
            name = words[words.index("--name") + 1]
            if name.startswith(f"{cluster}-worker-"):
                found.setdefault(name, []).append(pid)
    return found


def find_shim(stack: Stack, cluster: str, job: str) -> int:
    """Return the pid of the process that supervises ``job``."""
    (pid,) = [
        pid
        for pid, words in _commands(stack)
        if any(w.endswith("shim.py") for w in words)
        and any(w.endswith(f"/{cluster}/{job}") for w in words)
    ]
    return pid


class Steps:
    """Counts the steps that are taken with clusters, and logged, from now on."""

    def __init__(self, stack: Stack) -> None:
        self._log = stack.log
        self._read = self._log.stat().st_size
        self._seen: dict[str, set[str]] = {}
        self._changed = time.monotonic()

    def has_reached(self, cluster: str, number: int) -> bool:
        """Return whether ``number`` steps were taken, or there are no more.

        A job is asked to end again and again; that is one step, until it has.
        """
        seen = self._seen.setdefault(cluster, set())
        before = len(seen)
        for event in self._read_on():
            if event.get("event") in _STEPS and event.get("cluster") == cluster:
                what = ("event", "job", "is_gone", "version")
                seen.add(repr([event.get(key) for key in what]))
        if len(seen) != before:
            self._changed = time.monotonic()
        quiet_s = time.monotonic() - self._changed
        return len(seen) >= number or (len(seen) > 0 and quiet_s > _QUIET_S)

    def _read_on(self) -> list[dict[str, object]]:
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [_parse(line) for line in whole.splitlines()]


def _parse(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _commands(stack: Stack) -> Iterator[tuple[int, list[str]]]:
    for process in stack.jobs():
        try:
            yield process.pid, process.cmdline()
        except psutil.Error:  # it has just ended
            continue
