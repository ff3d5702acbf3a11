"""Compare with dask-gateway-server on this machine, in one run.

``python -m benchmarks`` prints a table and writes ``benchmarks/results/latest.json``
and the table of ``docs/benchmarks.md``. Rounds of the two sides alternate, and
every figure is the median of the rounds.
"""

import argparse
import json
import os
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import fleet, life, machine, report
from benchmarks.our_side import Ours
from benchmarks.peer_environment import describe_peer, ensure_peer
from benchmarks.peer_side import Peer
from benchmarks.processes import ROOT
from benchmarks.sides import ASKER, PASSWORD, Side, build_entries

_PAGE = ROOT / "docs" / "benchmarks.md"
_RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
_CACHE = ROOT / ".cache" / "benchmarks"
_PARTS = ("fleet", "stalls", "life")


def main() -> None:
    """Run what was asked for, then print and write it."""
    arguments = _parse_arguments()
    # So that whoever ends it early is left with no servers.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    size = fleet.QUICK if arguments.quick else fleet.Size()
    rounds = 1 if arguments.quick else arguments.rounds
    machine.prepare()
    python = ensure_peer(_CACHE)
    sides: dict[str, Side] = {"peer": Peer(python), "ours": Ours(python)}
    sides = {key: sides[key] for key in arguments.sides.split(",")}
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),  # noqa: TID251 - a report's date
        "rounds": rounds,
        "machine": machine.describe_machine(ROOT),
        "peer_versions": describe_peer(python),
    }
    work = _CACHE / f"run-{os.getpid()}"
    parts = arguments.parts.split(",")
    try:
        if "fleet" in parts or "stalls" in parts:
            fleets = _Fleets(sides, work, size)
            if "fleet" in parts:
                results["fleet"] = fleets.measure(rounds)
            if "stalls" in parts:
                results["stalls"] = fleets.measure(rounds, watched=True)
        if "life" in parts:
            results |= _measure_lives(sides, python, work / "life", rounds)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    results["load_average_end"] = list(os.getloadavg())
    print(report.format_table(results))
    is_whole = set(parts) == set(_PARTS) and len(sides) == 2
    if is_whole and not arguments.quick:
        results["summary"] = report.summarise(results)
        _RESULTS.parent.mkdir(exist_ok=True)
        _RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        _PAGE.write_text(report.format_page(_PAGE.read_text(), results))


class _Fleets:
    """Both sides over the same 1,000 clusters, written once and copied each time."""

    def __init__(self, sides: dict[str, Side], work: Path, size: fleet.Size):
        self._sides = sides
        self._work = work
        self._size = size
        self._entries = build_entries(size.clusters, size.of_asker)
        for key, side in sides.items():
            directory = work / "filled" / key
            directory.mkdir(parents=True)
            side.fill(directory, self._entries)

    def measure(self, rounds: int, *, watched: bool = False) -> dict[str, list[Any]]:
        measure = fleet.measure_stalls if watched else fleet.measure_fleet
        found: dict[str, list[Any]] = {key: [] for key in self._sides}
        for number in range(rounds):
            for key, side in _alternate(self._sides, number):
                _say("event loop" if watched else "fleet", number, key)
                with fleet.fleet_server(
                    side,
                    self._work / "filled" / key,
                    self._work / "run",
                    watched=watched,
                ) as server:
                    found[key].append(measure(side, server, self._entries, self._size))
        return found


def _measure_lives(
    sides: dict[str, Side], python: Path, work: Path, rounds: int
) -> dict[str, Any]:
    found: dict[str, list[Any]] = {key: [] for key in sides}
    bare: list[Any] = []
    servers = {}
    try:
        for key, side in sides.items():
            directory = work / key
            directory.mkdir(parents=True)
            servers[key] = side.start_real(directory)
        # The first of each fills the machine's caches and is not counted.
        for number in range(-1, rounds):
            for key, _ in _alternate(sides, number):
                _say("life", number, key)
                seconds = life.measure_life(servers[key].public, ASKER, PASSWORD)
                servers[key].process.wait_jobs_gone()
                if number >= 0:
                    found[key].append(seconds)
            seconds = life.measure_bare(python)
            if number >= 0:
                bare.append(seconds)
    finally:
        for server in servers.values():
            server.process.destroy()
    return {"life": found, "bare": bare}


def _alternate(sides: dict[str, Side], number: int) -> list[tuple[str, Side]]:
    """Return both sides, each going first every other round."""
    ordered = list(sides.items())
    return ordered if number % 2 == 0 else ordered[::-1]


def _say(part: str, number: int, key: str) -> None:
    print(f"{part}, round {number + 1}: {key}", flush=True)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default=",".join(_PARTS), help="of " + str(_PARTS))
    parser.add_argument("--sides", default="peer,ours")
    parser.add_argument(
        "--quick", action="store_true", help="one small round, written nowhere"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
