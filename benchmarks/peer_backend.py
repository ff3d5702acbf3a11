"""The peer's database backend over a launcher that starts nothing.

Runs in the peer's environment. All that is measured (HTTP, records, database,
reconcilers) is the peer's own code; only processes are left out, as on our side
(`benchmarks.fleet_backend`).
"""

import asyncio

from dask_gateway_server.backends.db_base import DBBackendBase
from dask_gateway_server.backends.local import UnsafeLocalBackend

from benchmarks import stalls


class StandInBackend(DBBackendBase):
    async def do_setup(self):
        stalls.install(asyncio.get_running_loop())

    async def do_start_cluster(self, cluster):  # noqa: ARG002 - the peer's signature
        yield {"pid": 1}

    async def do_stop_cluster(self, cluster):
        pass

    async def do_check_clusters(self, clusters):
        return [True] * len(clusters)

    async def do_start_worker(self, worker):  # noqa: ARG002 - the peer's signature
        yield {"pid": 1}

    async def do_stop_worker(self, worker):
        pass

    async def do_check_workers(self, workers):
        return [True] * len(workers)


class WatchedLocalBackend(UnsafeLocalBackend):
    """The peer's real local backend, its event loop watched."""

    async def do_setup(self):
        await super().do_setup()
        stalls.install(asyncio.get_running_loop())
