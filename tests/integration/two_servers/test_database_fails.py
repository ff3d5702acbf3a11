"""PostgreSQL is killed, or a server holds its locks: everything goes on after it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from dask_gateway import BasicAuth, Gateway, GatewayCluster

from backends.database.engine import Database, parse_url
from backends.database.shares import lock_shares
from gateway.domain.policy import Caps, Share
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.rest import Rest, calling
from tests.support.servers import Servers, own_address, running_servers
from tests.support.stack import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WITHIN = 120
SHARE = Share("user:alice", Caps(clusters=1))
# A server that is frozen in the middle of a transaction, under a lock.
HOLDER = """
import asyncio, os, signal, sys
from backends.database.engine import Database, parse_url
from backends.database.shares import lock_shares
from gateway.domain.policy import Caps, Share

async def main():
    database = Database(parse_url(sys.argv[1]), timeout_s=2)

    async def work(connection):
        await lock_shares(connection, [Share("user:alice", Caps(clusters=1))])
        os.kill(os.getpid(), signal.SIGSTOP)

    try:
        await database.write(work)
    except Exception as error:
        print(type(error).__name__)
    await database.close()

asyncio.run(main())
"""


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """One that a test may kill."""
    with running_postgres() as server:
        yield server


@pytest.fixture
async def servers(
    own_postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[Servers]:
    url = own_postgres.create_database()
    async with running_servers(tmp_path, url) as running:
        await eventually(lambda: all(map(running.is_in_table, (running.a, running.b))))
        yield running


@pytest.fixture
async def rest(servers: Servers) -> AsyncIterator[Rest]:
    async with calling(servers.address) as public:
        yield public


async def test_a_killed_database_costs_time_and_nothing_else(
    servers, rest, own_postgres
):
    both = [rest.at(own_address(server)) for server in (servers.a, servers.b)]
    async with Gateway(
        servers.address, auth=BasicAuth("alice", PASSWORD), asynchronous=True
    ) as gateway:
        first = await gateway.new_cluster()
        await first.scale(1)
        async with first.get_client(set_as_default=False) as client:
            await client.wait_for_workers(1)
            pid = await client.submit(os.getpid)
            async with asyncio.TaskGroup() as group:
                creating = group.create_task(_create(gateway))
                await eventually(lambda: _count_schedulers(servers) == 2, within=WITHIN)
                await asyncio.to_thread(own_postgres.kill)
                # What Dask does needs no database.
                assert await client.submit(os.getpid, pure=False) == pid
                for server in both:
                    await eventually(lambda s=server: _is_away(s), within=60)
                await asyncio.to_thread(own_postgres.start)
            second = creating.result()

        await gateway.scale_cluster(second.name, 1)
        async with second.get_client(set_as_default=False) as client:
            assert await client.submit(pow, 6, 2) == 36
        for cluster in (first, second):
            await cluster.shutdown()
        for cluster in (first, second):
            await eventually(lambda c=cluster: _has_stopped(rest, c.name), within=60)
    await eventually(lambda: not servers.jobs(), within=WITHIN)
    assert [s.process.poll() for s in (servers.a, servers.b)] == [None, None]
    assert set(servers.count_starts().values()) == {1}


async def test_a_scale_and_a_stop_just_before_a_kill_are_kept(
    servers, rest, own_postgres
):
    name = await rest.create()

    async def is_running() -> bool:
        return await rest.status(name) == "RUNNING"

    async def has_two() -> bool:
        return await _try_count(rest, name) == 2

    await eventually(is_running, within=WITHIN)
    await rest.scale(name, 2)
    await asyncio.to_thread(own_postgres.kill)
    await asyncio.to_thread(own_postgres.start)
    await eventually(has_two, within=WITHIN)

    await rest.stop(name)
    await asyncio.to_thread(own_postgres.kill)
    await asyncio.to_thread(own_postgres.start)
    await eventually(lambda: _has_stopped(rest, name), within=WITHIN)
    await eventually(lambda: not servers.jobs(), within=WITHIN)
    assert set(servers.count_starts().values()) == {1}


async def test_a_server_that_is_frozen_in_a_transaction_keeps_no_lock(postgres):
    url = postgres.create_database()
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, url),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    database = Database(parse_url(url), timeout_s=30)
    try:
        await eventually(lambda: _is_stopped(holder.pid))

        async def work(connection: object) -> bool:
            await lock_shares(connection, [SHARE])
            return True

        assert await database.write(work)
    finally:
        await database.close()
        holder.send_signal(signal.SIGCONT)
        told, _ = await asyncio.wait_for(holder.communicate(), 60)
    assert told.decode().strip() == "Unavailable"


async def _create(gateway: Gateway) -> GatewayCluster:
    return await gateway.new_cluster()


def _count_schedulers(servers: Servers) -> int:
    return sum(job.endswith("/scheduler") for job in servers.count_starts())


async def _is_away(server: Rest) -> bool:
    ready = await server.call("GET", "/api/ready")
    listing = await server.call("GET", "/api/v1/clusters/")
    alive = await server.call("GET", "/api/health")
    statuses = (ready.status, listing.status, alive.status)
    assert statuses == (503, 503, 200)
    assert int(listing.headers["Retry-After"]) > 0
    return True


async def _has_stopped(rest: Rest, name: str) -> bool:
    reply = await rest.call("GET", f"/api/v1/clusters/{name}")
    assert reply.status in {200, 503}
    return reply.status == 200 and reply.json["status"] == "STOPPED"


async def _try_count(rest: Rest, name: str) -> int | None:
    reply = await rest.call("GET", f"/api/v1/clusters/{name}/workers")
    assert reply.status in {200, 503}
    if reply.status == 503:
        return None
    return sum(w["status"] == "Running" for w in reply.json["workers"])


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"
