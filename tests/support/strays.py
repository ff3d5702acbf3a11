"""Find what a test, or the whole suite, has left running."""

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

_spared: set[int] = set()

# Time for what was told to end: a loaded machine schedules late.
_PATIENCE_S = float(os.environ.get("DASKFLEET_TEST_PATIENCE_S", "10"))

# Children of Python itself, not of a test.
_PYTHONS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@contextmanager
def refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test of ``request`` if it leaves a task, thread or process."""
    runner = None
    if "_function_scoped_runner" in request.fixturenames:  # pytest-asyncio's own
        runner = request.getfixturevalue("_function_scoped_runner")
    threads, children = set(_threads()), set(_children())
    yield
    left: dict[str, list[str]] = {}
    if runner is not None:
        left["tasks"] = runner.run(_wait_for_tasks())
    left["threads"] = _wait_until_gone(lambda: set(_threads()) - threads, str)
    left["processes"] = _wait_until_gone(
        lambda: {pid for pid in set(_children()) - children if _counts(pid)}, _command
    )
    found = [f"{kind}: {', '.join(texts)}" for kind, texts in left.items() if texts]
    if found:
        pytest.fail("left running: " + "; ".join(found), pytrace=False)


def spare(pid: int) -> None:
    """Let a child outlive its test: its owner is a fixture of the session."""
    _spared.add(pid)


def end_processes_of(folder: Path) -> list[str]:
    """Kill and return what runs in, or was started with a path of, ``folder``."""
    found = []
    # A whole name: `pytest-1` is no folder of a process in `pytest-12`.
    named = re.compile(re.escape(str(folder)) + r"(?![^/\s])")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            command = _command(int(entry.name))
            working = (entry / "cwd").readlink()
            if named.search(command) or working.is_relative_to(folder):
                os.kill(int(entry.name), signal.SIGKILL)
                found.append(command)
    return found


async def _wait_for_tasks() -> list[str]:
    deadline = time.monotonic() + _PATIENCE_S
    current = asyncio.current_task()
    while left := {t for t in asyncio.all_tasks() if t is not current}:
        if time.monotonic() > deadline:
            return [repr(task) for task in left]
        await asyncio.wait(left, timeout=0.1)
    return []


def _wait_until_gone(
    find: Callable[[], Iterable[T]], describe: Callable[[T], str]
) -> list[str]:
    deadline = time.monotonic() + _PATIENCE_S
    while left := list(find()):
        if time.monotonic() > deadline:
            return [describe(one) for one in left]
        threading.Event().wait(0.02)
    return []


def _threads() -> Iterable[threading.Thread]:
    # Those of a loop's default executor end with the loop, a moment later.
    return (
        thread
        for thread in threading.enumerate()
        if not thread.daemon and not thread.name.startswith("asyncio_")
    )


def _children() -> Iterable[int]:
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has just ended
            yield from map(int, (task / "children").read_text().split())


def _counts(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    # A zombie waits for its parent, whom Python tells. No command line is no
    # sign of one: for a moment after `exec` it is empty.
    if state == "Z" or pid in _spared:
        return False
    return not any(part in _command(pid) for part in _PYTHONS_OWN)


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()
