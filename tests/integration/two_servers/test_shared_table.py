"""Gateways find each other in the database, and publish the same set of URLs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from backends.database.tables import servers
from tests.support.database import FakeBackend, crash, make_backend, running
from tests.support.eventually import eventually
from tests.support.fake_launcher import FakeLauncher, Platform

pytestmark = pytest.mark.integration

A, B = "http://127.0.0.1:8001", "http://127.0.0.1:8002"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/db.sqlite"
    return request.getfixturevalue("postgres").create_database()


def make(url: str, platform: Platform, gateway_url: str, **traits: Any) -> FakeBackend:
    launcher = FakeLauncher(platform)
    return make_backend(url, launcher=launcher, gateway_url=gateway_url, **traits)


@asynccontextmanager
async def two(url: str, **traits: Any) -> AsyncIterator[tuple[FakeBackend, ...]]:
    platform = Platform()
    first, second = (make(url, platform, own, **traits) for own in (A, B))
    async with running(first), running(second):
        yield first, second


async def test_each_publishes_all_that_serve(url):
    async with two(url) as (first, second):
        assert second.routes.gateways == (A, B)
        await eventually(lambda: first.routes.gateways == (A, B))


async def test_one_that_ends_leaves_both_tables_at_once_or_soon(url):
    platform = Platform()
    first, second = make(url, platform, A), make(url, platform, B)
    async with running(first):
        async with running(second):
            await eventually(lambda: first.routes.gateways == (A, B))

        assert second.routes.gateways == (A,)
        await eventually(lambda: first.routes.gateways == (A,))


async def test_one_that_is_killed_is_dropped_when_its_lease_is_over(url):
    platform = Platform()
    first, second = make(url, platform, A), make(url, platform, B)
    async with running(first):
        async with running(second):
            await eventually(lambda: first.routes.gateways == (A, B))
            await crash(second)
        await eventually(lambda: first.routes.gateways == (A,))


async def test_the_last_one_stays_in_the_table(url):
    backend = make(url, Platform(), A)
    async with running(backend):
        pass

    assert backend.routes.gateways == (A,)


async def test_one_whose_lease_ran_out_still_counts_itself(url):
    """It asks, so it lives; a database that was away must not empty the table."""
    async with two(url) as (first, _second):
        lease = first._run.lease
        await first._run.database.write(
            lambda connection: connection.execute(servers.update().values(until_ms=1))
        )

        assert A in await lease.list_gateways()


@pytest.mark.parametrize(
    ("address", "is_wanted"),
    [
        pytest.param("http://127.0.0.1:9", False, id="loopback"),
        pytest.param("http://localhost:9", False, id="localhost"),
        pytest.param("http://node-2:8001", True, id="by-name"),
        pytest.param("", False, id="of-an-older-version"),
    ],
)
async def test_another_machines_address_counts_unless_it_is_its_loopback(
    url, address, is_wanted
):
    async with running(make(url, Platform(), A)) as backend:
        row = {
            "id": "elsewhere",
            "until_ms": 2**60,
            "process": "node-2 boot pid:[1] 7 8",
            "url": address,
        }
        await backend._run.database.write(
            lambda connection: connection.execute(insert(servers).values(row))
        )

        want = {A, address} if is_wanted else {A}
        assert set(await backend._run.lease.list_gateways()) == want


async def test_what_another_has_overwritten_is_written_again(url):
    """A process that was stopped in the middle of a write goes on with it later."""
    async with two(url) as (first, _second):
        await eventually(lambda: first.routes.gateways == (A, B))
        before = len(first.routes.publications)
        first.routes.gateways = ("http://127.0.0.1:1",)

        await eventually(lambda: len(first.routes.publications) > before)
        assert first.routes.gateways == (A, B)


async def test_one_alone_does_not_write_the_same_table_again(url):
    async with running(make(url, Platform(), A, lease_duration=0.3)) as backend:
        lease = backend._run.lease
        before = len(backend.routes.publications)
        renewals = set()

        def is_renewed_thrice() -> bool:
            renewals.add(lease._until)
            return len(renewals) > 3

        await eventually(is_renewed_thrice)
        assert len(backend.routes.publications) == before


async def test_a_table_that_cannot_be_written_at_the_end_keeps_nobody_from_it(url):
    async with two(url) as (first, second):
        await eventually(lambda: first.routes.gateways == (A, B))
        second.routes.failures = 1000
        async with asyncio.timeout(30):
            await second.cleanup()

        await eventually(lambda: first.routes.gateways == (A,))
