"""Daskfleet: its configuration, its filled database, its scale request."""

import asyncio
import json
import sys
import time
from pathlib import Path

from backends.database.engine import Database, parse_url
from backends.database.keyring import Keyring, hash_token
from backends.database.migrate import migrate
from backends.database.records import ClusterRecord, ClusterSpec
from backends.database.store import NewCluster, Store
from backends.database.vault import Vault, read_key_file
from benchmarks.load import basic_authorization
from benchmarks.processes import free_port
from benchmarks.sides import (
    ASKER,
    PASSWORD,
    Demand,
    Entry,
    Server,
    count_rows,
    start_server,
)
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import ClusterPhase
from gateway.domain.config import ResolvedConfig

FILLED = "filled.json"
_DATABASE = "daskfleet.sqlite"
_KEYS = "encrypt-keys"


class Ours:
    """The gateway of this checkout, on this Python.

    Parameters
    ----------
    jobs_python
        Of the environment in which schedulers and workers run.
    """

    name = "Daskfleet"

    def __init__(self, jobs_python: Path):
        self._dask = str(jobs_python.with_name("dask"))

    def fill(self, directory: Path, entries: list[Entry]) -> None:
        data = directory / "data"
        data.mkdir(mode=0o700)
        (data / FILLED).write_text(json.dumps([entry.name for entry in entries]))
        asyncio.run(_fill(data, entries))

    def start_fleet(self, directory: Path, *, watched: bool) -> Server:
        return self._start(
            directory, "benchmarks.fleet_backend.FleetBackend", watched=watched
        )

    def start_real(self, directory: Path) -> Server:
        (directory / "data").mkdir(mode=0o700)
        return self._start(directory, "UnsafeLocalBackend", watched=False)

    def demand_workers(self, entry: Entry, count: int) -> Demand:
        return Demand(
            path=f"/api/v1/clusters/{entry.name}/scale",
            body={"count": count},
            headers=basic_authorization(ASKER, PASSWORD),
        )

    def count_workers(self, server: Server, entry: Entry) -> int:
        return count_rows(
            server.database,
            "select count(*) from workers join clusters on"
            " workers.cluster_id = clusters.id where clusters.name = ?",
            entry.name,
        )

    def _start(self, directory: Path, backend: str, *, watched: bool) -> Server:
        private, public = free_port(), free_port()
        data = directory / "data"
        config = directory / "daskfleet_config.py"
        config.write_text(
            f"""
c.DaskGateway.backend_class = "{backend}"
c.DaskGateway.address = "127.0.0.1:{private}"
c.DaskGateway.data_directory = {str(data)!r}
c.Proxy.address = "127.0.0.1:{public}"
c.SimpleAuthenticator.password = {PASSWORD!r}
c.LocalClusterConfig.worker_memory = "1 G"
c.LocalClusterConfig.scheduler_cmd = [{self._dask!r}, "scheduler"]
c.LocalClusterConfig.worker_cmd = [{self._dask!r}, "worker"]
"""
            # Nobody answers for clusters that are only rows.
            + (
                "c.FleetBackend.cluster_start_timeout = 1e6\n"
                "c.FleetBackend.worker_start_timeout = 1e6\n"
                if backend.endswith("FleetBackend")
                else ""
            )
        )
        return start_server(
            directory,
            [sys.executable, "-m", "gateway", "gateway", "-f", str(config)],
            private=private,
            public=public,
            database=data / _DATABASE,
            watched=watched,
        )


async def _fill(data: Path, entries: list[Entry]) -> None:
    clock = SystemClock()
    database = Database(parse_url(f"sqlite:///{data / _DATABASE}"))
    keyring = Keyring(database, Vault(read_key_file(data / _KEYS)), clock)
    store = Store(database, server="benchmark", announce=lambda _name, _version: None)
    await migrate(database)
    await keyring.check_keys()
    now_ms = round(time.time() * 1000)
    for entry in entries:
        credentials = await keyring.make(entry.name)
        new = NewCluster(
            record=_build_record(entry, now_ms),
            spec=ClusterSpec(
                options={"workers": 4, "profile": "small"},
                # Nobody reports that these clusters are used.
                config=ResolvedConfig(idle_timeout_s=0, no_client_timeout_s=0),
                api_url="http://127.0.0.1:9/api",
            ),
            token_hash=hash_token(entry.token),
            credentials=keyring.seal(credentials),
            memberships=(f"user:{entry.owner}",),
        )
        await store.create(new, (), lambda _holdings: None)
    await database.close()


def _build_record(entry: Entry, now_ms: int) -> ClusterRecord:
    return ClusterRecord(
        id=0,  # the database counts
        name=entry.name,
        owner=entry.owner,
        created_ms=now_ms,
        phase=ClusterPhase.RUNNING,
        launched=True,
        started_ms=now_ms,
        running_ms=now_ms,
        scheduler_port=9,
        dashboard_port=9,
        route_host="127.0.0.1",
        is_silent=True,  # known already, so that nothing is written about it
    )
