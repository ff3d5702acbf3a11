"""The two servers under test, started and asked in the same words.

A side differs only in configuration, in how its database is filled beforehand,
and in who is asked for 1,000 workers; everything that measures is shared.
"""

import json
import secrets
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks import stalls
from benchmarks.processes import ROOT, ServerProcess

PASSWORD = "benchmark"  # noqa: S105 - both servers live for minutes on 127.0.0.1
ASKER = "alice"
_FILL_S = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """A running cluster that is in the database before the server starts."""

    name: str
    owner: str
    token: str


@dataclass(frozen=True, slots=True)
class Server:
    """A started server.

    Parameters
    ----------
    api, public
        URLs of the API server itself and of the proxy before it.
    database
        Its SQLite file.
    stalls_file
        Where `benchmarks.stalls` reports, if it was asked to.
    """

    process: ServerProcess
    api: str
    public: str
    database: Path
    stalls_file: Path | None


@dataclass(frozen=True, slots=True)
class Demand:
    """The HTTP request that makes a server create worker rows."""

    path: str
    body: Any
    headers: dict[str, str]


class Side(Protocol):
    """One of the two servers."""

    name: str

    def fill(self, directory: Path, entries: list[Entry]) -> None:
        """Write ``entries`` as running clusters into a new database there."""
        ...

    def start_fleet(self, directory: Path, *, watched: bool) -> Server:
        """Start on the database there, with a launcher that starts nothing."""
        ...

    def start_real(self, directory: Path) -> Server:
        """Start with an empty database and real processes."""
        ...

    def demand_workers(self, entry: Entry, count: int) -> Demand:
        """Return the request after which ``count`` worker rows are made."""
        ...

    def count_workers(self, server: Server, entry: Entry) -> int:
        """Return how many worker rows the cluster has on disk."""
        ...


def build_entries(clusters: int, of_asker: int) -> list[Entry]:
    """Return clusters of which the asker owns ``of_asker``, spread evenly."""
    every = max(1, clusters // of_asker)
    return [
        Entry(
            name=secrets.token_hex(16),
            owner=ASKER
            if number % every == 0 and number // every < of_asker
            else f"user-{number % 40}",
            token=secrets.token_hex(16),
        )
        for number in range(clusters)
    ]


def start_server(
    directory: Path,
    command: list[str],
    *,
    private: int,
    public: int,
    database: Path,
    watched: bool,
) -> Server:
    """Start ``command`` and wait until the API and the proxy before it answer."""
    stalls_file = directory / "stalls.json" if watched else None
    process = ServerProcess(
        directory,
        command,
        f"http://127.0.0.1:{public}/api/health",
        environment={stalls.ENVIRONMENT: str(stalls_file)} if stalls_file else {},
    )
    try:
        process.wait_ready()
    except BaseException:
        process.destroy()
        raise
    return Server(
        process=process,
        api=f"http://127.0.0.1:{private}",
        public=f"http://127.0.0.1:{public}",
        database=database,
        stalls_file=stalls_file,
    )


def run_with_plan(command: list[str], plan: Any) -> None:
    """Run one of our scripts, its plan as JSON on standard input."""
    subprocess.run(
        command,
        input=json.dumps(plan),
        text=True,
        check=True,
        cwd=ROOT,
        timeout=_FILL_S,
    )


def count_rows(database: Path, statement: str, *values: str) -> int:
    """Count in a SQLite file that its server is writing to."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return int(connection.execute(statement, values).fetchone()[0])
