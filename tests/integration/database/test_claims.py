from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.engine import Database, parse_url
from backends.database.leases import Lease
from backends.database.migrate import migrate
from backends.database.records import ClusterRecord, ClusterSpec
from backends.database.store import NewCluster, Store
from backends.database.tables import clusters
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import ClusterPhase


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = Database(parse_url("sqlite://"))
    await migrate(database)
    yield database
    await database.close()


async def add_cluster(database: Database, server: str, record: ClusterRecord) -> None:
    store = Store(database, server=server, announce=lambda _name, _version: None)
    new = NewCluster(
        record, ClusterSpec(), f"hash of {record.name}", b"sealed", ("user:a",)
    )
    await store.create(new, (), lambda _holdings: None)


async def read_claims(database: Database) -> dict[str, str]:
    query = select(clusters.c.name, clusters.c.claimed_by)

    async def work(connection: AsyncConnection) -> dict[str, str]:
        return dict(map(tuple, await connection.execute(query)))

    return await database.read(work)


def make_lease(database: Database, server: str) -> Lease:
    return Lease(database, server=server, lease_s=3600, clock=SystemClock())


async def test_one_write_claims_every_live_cluster_that_is_free(
    database: Database,
) -> None:
    await add_cluster(database, "dead", ClusterRecord(0, "left", "alice", 1))
    await add_cluster(
        database,
        "dead",
        ClusterRecord(0, "ended", "alice", 1, phase=ClusterPhase.STOPPED),
    )
    await add_cluster(database, "other", ClusterRecord(0, "theirs", "alice", 1))
    await make_lease(database, "other").renew()
    lease = make_lease(database, "mine")
    await lease.renew()

    await lease.claim_free()

    want = {"left": "mine", "ended": "dead", "theirs": "other"}
    assert await read_claims(database) == want


async def test_a_server_without_a_lease_claims_nothing(database: Database) -> None:
    await add_cluster(database, "dead", ClusterRecord(0, "left", "alice", 1))

    await make_lease(database, "mine").claim_free()

    assert await read_claims(database) == {"left": "dead"}
