"""Measure how long single callbacks hold an event loop.

Standard library only: the same file runs inside both servers, loaded by the
configuration that the benchmark writes. It changes nothing of the server under
test but adds two clock readings to each callback, so it is off while
throughput is measured.
"""

import asyncio
import gc
import json
import os
import time
from asyncio import events
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENVIRONMENT = "DASKFLEET_BENCHMARK_STALLS"
THRESHOLD_S = 0.020
_KEPT = 20
_WRITE_PERIOD_S = 0.5
_TICK_S = 0.005
_NAMED = 4


@dataclass
class Stalls:
    """What was seen of one event loop since `reset`.

    ``longest`` has the slowest callbacks: seconds of wall time, seconds of CPU
    of the loop's thread, and what it was. Wall without CPU is waiting: for the
    disk, for the interpreter's lock, or for a core. ``collections`` are those
    of Python's garbage collector.
    """

    callbacks: int = 0
    over: int = 0
    over_cpu: int = 0
    max_wall_s: float = 0.0
    max_cpu_s: float = 0.0
    max_tick_late_s: float = 0.0
    collections: int = 0
    max_collection_s: float = 0.0
    longest: list[tuple[float, float, str]] = field(default_factory=list)

    def note(self, wall: float, cpu: float, what: str) -> None:
        """Take a callback of more than a quarter of the threshold."""
        self.max_wall_s = max(self.max_wall_s, wall)
        self.max_cpu_s = max(self.max_cpu_s, cpu)
        self.over += wall > THRESHOLD_S
        self.over_cpu += cpu > THRESHOLD_S
        self.longest = sorted([*self.longest, (wall, cpu, what)], reverse=True)[:_KEPT]


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Watch ``loop`` if the environment names a file to write to.

    A file of the same name with ``.reset`` beside it starts a new count.
    """
    target = os.environ.get(ENVIRONMENT)
    if not target:
        return
    watch = _Watch(Path(target))
    gc.callbacks.append(watch.note_collection)
    events.Handle._run = watch.timed(events.Handle._run)  # type: ignore[method-assign]  # noqa: SLF001 - the one place through which every callback goes
    loop.call_later(_TICK_S, watch.tick, loop, loop.time() + _TICK_S)


class _Watch:
    def __init__(self, target: Path):
        self.target = target
        self.stalls = Stalls()
        self.written = 0.0
        self.collecting_since = 0.0

    def note_collection(self, phase: str, _details: dict[str, int]) -> None:
        # Of any thread: whichever collects, the interpreter's lock is held.
        if phase == "start":
            self.collecting_since = time.perf_counter()
            return
        seconds = time.perf_counter() - self.collecting_since
        self.stalls.collections += 1
        self.stalls.max_collection_s = max(self.stalls.max_collection_s, seconds)

    def timed(self, run: Any) -> Any:
        def timed_run(handle: events.Handle) -> None:
            wall = time.perf_counter()
            cpu = time.thread_time()
            run(handle)
            wall = time.perf_counter() - wall
            self.stalls.callbacks += 1
            if wall > THRESHOLD_S / 4:
                self.stalls.note(wall, time.thread_time() - cpu, _name(handle))

        return timed_run

    def tick(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = loop.time() - due
        self.stalls.max_tick_late_s = max(self.stalls.max_tick_late_s, late)
        if loop.time() - self.written > _WRITE_PERIOD_S:
            self.written = loop.time()
            self._exchange()
        loop.call_later(_TICK_S, self.tick, loop, loop.time() + _TICK_S)

    def _exchange(self) -> None:
        reset = self.target.with_suffix(".reset")
        if reset.exists():
            self.stalls = Stalls()
            reset.unlink()
        part = self.target.with_suffix(".part")
        part.write_text(json.dumps(vars(self.stalls)))
        part.replace(self.target)


def _name(handle: events.Handle) -> str:
    """Say which code ran: where a task's step ended, else the callback."""
    callback = handle._callback  # noqa: SLF001 - asyncio has no public name for it
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback))
    names = []
    step: Any = task.get_coro()
    while hasattr(step, "cr_await"):
        names.append(step.__qualname__)
        step = step.cr_await
    return "task " + " > ".join(names[:1] + names[1:][-_NAMED:])
