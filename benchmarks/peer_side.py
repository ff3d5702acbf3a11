"""dask-gateway-server: its configuration, its filled database, its heartbeat."""

import secrets
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path

from benchmarks.processes import free_port
from benchmarks.sides import (
    PASSWORD,
    Demand,
    Entry,
    Server,
    count_rows,
    run_with_plan,
    start_server,
)


class Peer:
    """dask-gateway-server as released, in its own environment."""

    name = "dask-gateway-server"

    def __init__(self, python: Path):
        self.python = python
        self._key = b64encode(secrets.token_bytes(32)).decode()

    def fill(self, directory: Path, entries: list[Entry]) -> None:
        plan = {
            "url": f"sqlite:///{directory / 'peer.sqlite'}",
            "encrypt_key": self._key,
            "clusters": [asdict(entry) for entry in entries],
        }
        run_with_plan([str(self.python), "-m", "benchmarks.peer_fill"], plan)

    def start_fleet(self, directory: Path, *, watched: bool) -> Server:
        return self._start(directory, "StandInBackend", watched=watched)

    def start_real(self, directory: Path) -> Server:
        return self._start(directory, "WatchedLocalBackend", watched=False)

    def demand_workers(self, entry: Entry, count: int) -> Demand:
        # Its scale only passes the number on to the scheduler, whose heartbeat
        # brings it back; rows are made when that heartbeat arrives.
        heartbeat = {
            "api_address": "http://127.0.0.1:9",
            "scheduler_address": "tls://127.0.0.1:9",
            "dashboard_address": "http://127.0.0.1:9",
            "count": count,
            "active_workers": [],
            "closing_workers": [],
            "closed_workers": [],
        }
        return Demand(
            path=f"/api/v1/clusters/{entry.name}/heartbeat",
            body=heartbeat,
            headers={"Authorization": f"token {entry.token}"},
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
        database = directory / "peer.sqlite"
        clusters = directory / "clusters"
        clusters.mkdir(exist_ok=True)
        config = directory / "dask_gateway_config.py"
        config.write_text(
            f"""
c.DaskGateway.backend_class = "benchmarks.peer_backend.{backend}"
c.DaskGateway.address = "127.0.0.1:{private}"
c.Proxy.address = "127.0.0.1:{public}"
c.SimpleAuthenticator.password = {PASSWORD!r}
c.{backend}.db_url = "sqlite:///{database}"
c.{backend}.db_encrypt_keys = [{self._key!r}]
c.ClusterConfig.scheduler_cmd = [{str(self.python.with_name("dask"))!r}, "scheduler"]
c.ClusterConfig.worker_cmd = [{str(self.python.with_name("dask"))!r}, "worker"]
c.ClusterConfig.worker_memory = "1 G"
"""
            + (
                f"c.{backend}.clusters_directory = {str(clusters)!r}\n"
                if backend == "WatchedLocalBackend"
                # Nobody beats for clusters that are only rows.
                else f"""
c.{backend}.cluster_heartbeat_timeout = 1e6
c.{backend}.cluster_start_timeout = 1e6
c.{backend}.worker_start_timeout = 1e6
c.{backend}.check_timeouts_period = 30
c.{backend}.stop_clusters_on_shutdown = False
"""
            )
        )
        return start_server(
            directory,
            [str(self.python), "-m", "dask_gateway_server", "-f", str(config)],
            private=private,
            public=public,
            database=database,
            watched=watched,
        )
