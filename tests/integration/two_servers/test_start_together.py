"""Servers that start at the same moment on an empty database."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from backends.database.engine import Database, parse_url
from backends.database.keyring import Keyring
from backends.database.migrate import migrate
from backends.database.vault import Vault, parse_keys
from gateway.aio.clock import SystemClock
from tests.support.database import KEY, make_backend, running
from tests.support.fake_launcher import FakeLauncher, Platform

pytestmark = pytest.mark.integration

SERVERS = 6
HELLO = text("SELECT 1")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/db.sqlite"
    return request.getfixturevalue("postgres").create_database()


async def test_all_of_them_come_up(url):
    platform = Platform()
    backends = [
        make_backend(url, launcher=FakeLauncher(platform)) for _ in range(SERVERS)
    ]
    async with AsyncExitStack() as stack:
        await asyncio.gather(
            *(stack.enter_async_context(running(backend)) for backend in backends)
        )

        await asyncio.gather(*(backend.check_ready() for backend in backends))


async def test_each_may_be_the_one_that_leaves_the_mark_of_the_keys(url):
    databases = await asyncio.to_thread(
        lambda: [Database(parse_url(url)) for _ in range(SERVERS)]
    )
    try:
        await migrate(databases[0])
        for database in databases:  # connected, so that they come together
            await database.write(lambda connection: connection.execute(HELLO))
        keys = parse_keys([KEY])

        await asyncio.gather(
            *(Keyring(d, Vault(keys), SystemClock()).check_keys() for d in databases)
        )
    finally:
        for database in databases:
            await database.close()


async def test_one_with_other_keys_is_refused_whoever_is_first(url):
    keys = ["0" * 32, "1" * 32]
    backends = [
        make_backend(url, launcher=FakeLauncher(), db_encrypt_keys=[key])
        for key in keys
    ]

    async def start(backend) -> str:
        try:
            async with running(backend):
                await backend.check_ready()
        except Exception as error:  # noqa: BLE001 - the class is asserted
            return type(error).__name__
        return "started"

    assert sorted(await asyncio.gather(*map(start, backends))) == [
        "ConfigError",
        "started",
    ]
