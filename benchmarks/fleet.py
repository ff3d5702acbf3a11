"""Measurements on a server that has 1,000 running clusters in its database."""

import json
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any

from benchmarks import load
from benchmarks.sides import ASKER, PASSWORD, Demand, Entry, Server, Side

_LIST_PATH = "/api/v1/clusters/"
_POLL_S = 0.02
_ROWS_S = 300
_SETTLE_S = 90


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked, in requests, seconds and rows."""

    clusters: int = 1000
    of_asker: int = 200
    list_s: float = 4
    get_s: float = 4
    gets: int = 2000
    get_rate: float = 500
    creates: int = 50
    create_rate: float = 10
    workers: int = 1000
    created_for_stalls: int = 20


QUICK = Size(list_s=1, get_s=1, gets=200, creates=10)


@contextmanager
def fleet_server(
    side: Side, filled: Path, directory: Path, *, watched: bool = False
) -> Iterator[Server]:
    """Yield a server on a copy of the filled folder."""
    shutil.copytree(filled, directory)
    server = side.start_fleet(directory, watched=watched)
    try:
        yield server
    finally:
        server.process.destroy()
        shutil.rmtree(directory, ignore_errors=True)


def measure_fleet(
    side: Side, server: Server, entries: list[Entry], size: Size
) -> dict[str, Any]:
    """Return everything that one round measures on one side."""
    mine = [entry for entry in entries if entry.owner == ASKER]
    gets = [f"{_LIST_PATH}{entry.name}" for entry in mine]
    _settle(server)
    rss, private = server.process.memory_bytes()
    listed = _ask(server, [_LIST_PATH], seconds=size.list_s, connections=4)
    # Each once before, so that what is kept is kept; on both sides.
    got = _ask(server, gets, seconds=size.get_s, warm_up=2 * len(gets))
    paced = _ask(server, gets, size.gets, rate=size.get_rate)
    created = _ask(
        server,
        [_LIST_PATH],
        size.creates,
        rate=size.create_rate,
        method="POST",
        body={},
        warm_up=1,
    )
    rss_after, private_after = server.process.memory_bytes()
    return {
        "memory_start": {"rss_mb": rss / 1e6, "private_mb": private / 1e6},
        "list": listed,
        "get": got,
        "get_paced": paced,
        "create_paced": created,
        "memory_after": {"rss_mb": rss_after / 1e6, "private_mb": private_after / 1e6},
        "rows": measure_rows(side, server, mine[0], size.workers),
    }


def measure_rows(
    side: Side, server: Server, entry: Entry, count: int
) -> dict[str, Any]:
    """Ask for ``count`` workers; measure until all their rows are on disk."""
    demand = side.demand_workers(entry, count)
    cpu = server.process.cpu_s()
    started = time.perf_counter()
    _send(server, demand)
    answered = time.perf_counter() - started
    seconds = _wait_for_rows(side, server, entry, count) - started
    return {
        "rows": count,
        "seconds": seconds,
        "answered_s": answered,
        "rows_per_s": count / seconds,
        "server_cpu_s": server.process.cpu_s() - cpu,
    }


def measure_stalls(
    side: Side, server: Server, entries: list[Entry], size: Size
) -> dict[str, Any]:
    """Return what `benchmarks.stalls` saw in each phase of work."""
    mine = [entry for entry in entries if entry.owner == ASKER]
    gets = [f"{_LIST_PATH}{entry.name}" for entry in mine]

    def create() -> None:
        _ask(
            server,
            [_LIST_PATH],
            size.created_for_stalls,
            connections=size.created_for_stalls,
            method="POST",
            body={},
            warm_up=0,
        )

    phases = {
        "idle": lambda: time.sleep(3),
        "list": lambda: _ask(server, [_LIST_PATH], seconds=size.list_s, connections=4),
        "get": lambda: _ask(server, gets, size.gets, warm_up=0),
        "create": create,
        "rows": lambda: measure_rows(side, server, mine[0], size.workers),
    }
    _settle(server)
    return {name: _watch(server, phase) for name, phase in phases.items()}


def _ask(
    server: Server,
    paths: list[str],
    requests: int = 0,
    *,
    seconds: float | None = None,
    connections: int = 8,
    rate: float | None = None,
    method: str = "GET",
    body: Any = None,
    warm_up: int = 10,
) -> dict[str, Any]:
    return load.run(
        load.Plan(
            base=server.api,
            paths=paths,
            server_pid=server.process.pid,
            user=ASKER,
            password=PASSWORD,
            requests=requests,
            seconds=seconds,
            warm_up=warm_up,
            connections=connections,
            rate=rate,
            method=method,
            body=body,
        )
    )


def _send(server: Server, demand: Demand) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own http URL
        server.api + demand.path,
        data=json.dumps(demand.body).encode(),
        headers={"Content-Type": "application/json", **demand.headers},
    )
    with urllib.request.urlopen(request, timeout=_ROWS_S) as response:  # noqa: S310 - as above
        response.read()


def _wait_for_rows(side: Side, server: Server, entry: Entry, count: int) -> float:
    found = 0
    deadline = time.perf_counter() + _ROWS_S
    while time.perf_counter() < deadline:
        # A database that is being written to may be locked at the moment.
        with suppress(OperationalError):
            found = side.count_workers(server, entry)
        if found >= count:
            return time.perf_counter()
        time.sleep(_POLL_S)
    raise RuntimeError(f"only {found} of {count} worker rows within {_ROWS_S} s")


def _settle(server: Server) -> None:
    """Wait until the server has stopped working on its start."""
    quiet = 0
    for _ in range(_SETTLE_S):
        before = server.process.cpu_s()
        time.sleep(1)
        # A look around each second is no work; on a busy machine a starved
        # server may seem quiet for a second, hence several.
        quiet = quiet + 1 if server.process.cpu_s() - before < 0.1 else 0
        if quiet == 4:
            return


def _watch(server: Server, phase: Any) -> dict[str, Any]:
    if server.stalls_file is None:
        raise RuntimeError("this server was started without a watch on its loop")
    reset = server.stalls_file.with_suffix(".reset")
    reset.touch()
    while reset.exists():
        time.sleep(0.05)
    phase()
    return _read_after(server.stalls_file, time.time())


def _read_after(stalls_file: Path, instant: float) -> dict[str, Any]:
    """Return the first report of the watch that was written after ``instant``.

    A loop that is still held writes none; the end of the stall is waited for.
    """
    deadline = time.monotonic() + _ROWS_S
    while stalls_file.stat().st_mtime <= instant:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the event loop gave no sign for {_ROWS_S} s")
        time.sleep(0.05)
    outcome: dict[str, Any] = json.loads(stalls_file.read_text())
    return outcome
