import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from backends.database.engine import Database, parse_url
from backends.database.migrate import migrate
from backends.database.tables import metadata
from gateway.domain.errors import ConfigError, Unavailable

pytestmark = pytest.mark.integration


def open_database(url: str, timeout_s: float = 30) -> Database:
    return Database(parse_url(url), timeout_s=timeout_s)


async def find_differences(database: Database) -> list[object]:
    def compare(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return compare_metadata(context, metadata)

    async def work(connection) -> list[object]:
        return await connection.run_sync(compare)

    return await database.write(work)


async def test_an_empty_database_gets_the_tables_that_the_code_knows(url):
    database = await asyncio.to_thread(open_database, url)
    try:
        await migrate(database)
        assert await find_differences(database) == []
        await migrate(database)
        assert await find_differences(database) == []
    finally:
        await database.close()


async def test_servers_that_start_at_once_make_the_tables_once(url):
    databases = [await asyncio.to_thread(open_database, url) for _ in range(4)]
    try:
        async with asyncio.TaskGroup() as group:
            for database in databases:
                group.create_task(migrate(database))
        assert await find_differences(databases[0]) == []
    finally:
        for database in databases:
            await database.close()


async def test_a_database_in_memory_has_the_same_tables():
    database = open_database("sqlite://")
    try:
        await migrate(database)
        assert await find_differences(database) == []
    finally:
        await database.close()


async def test_a_database_of_a_newer_version_is_left_alone(url):
    database = await asyncio.to_thread(open_database, url)
    try:
        await migrate(database)

        async def leap(connection) -> None:
            await connection.exec_driver_sql(
                "UPDATE alembic_version SET version_num = '9999'"
            )

        await database.write(leap)
        with pytest.raises(ConfigError, match="newer version") as caught:
            await migrate(database)
        assert "DBBackendBase.db_url" in str(caught.value)
    finally:
        await database.close()


async def test_a_database_file_is_its_owners_alone(tmp_path):
    file = tmp_path / "new" / "a % b.sqlite"
    database = await asyncio.to_thread(open_database, f"sqlite:///{file}")
    try:
        await migrate(database)
    finally:
        await database.close()

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_accepted_means_on_the_disk(tmp_path):
    url = f"sqlite:///{tmp_path}/db.sqlite"
    database = await asyncio.to_thread(open_database, url)
    try:
        await migrate(database)
        seen = {}

        async def ask(connection) -> None:
            for name in ("journal_mode", "synchronous", "foreign_keys"):
                answer = await connection.exec_driver_sql(f"PRAGMA {name}")
                seen[name] = answer.scalar_one()

        await database.write(ask)
    finally:
        await database.close()

    assert seen == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_a_folder_that_cannot_be_is_a_configuration_error(tmp_path):
    (tmp_path / "file").touch()
    url = f"sqlite:///{tmp_path}/file/db.sqlite"
    database = await asyncio.to_thread(open_database, url)
    try:
        with pytest.raises(ConfigError, match="db_url"):
            await migrate(database)
    finally:
        await database.close()


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "db.sqlite"
    file.write_bytes(b"no database at all, but long enough for a header" * 100)
    return file


async def test_a_file_that_is_no_database_is_a_configuration_error(text_file):
    database = await asyncio.to_thread(open_database, f"sqlite:///{text_file}")
    try:
        with pytest.raises(ConfigError, match="db_url"):
            await migrate(database)
    finally:
        await database.close()


async def test_a_server_that_is_not_there_is_unavailable():
    url = "postgresql://daskfleet@127.0.0.1:1/nothing"
    database = await asyncio.to_thread(open_database, url)
    try:
        with pytest.raises(Unavailable):
            await migrate(database)
        with pytest.raises(Unavailable):
            await database.read(find_differences)
    finally:
        await database.close()


async def test_a_locked_file_is_unavailable_for_as_long_as_it_is_locked(tmp_path):
    file = tmp_path / "db.sqlite"
    database = await asyncio.to_thread(open_database, f"sqlite:///{file}", 0.5)

    async def write(connection) -> None:
        await connection.exec_driver_sql("DELETE FROM events")

    try:
        await migrate(database)
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable):
                await database.write(write)
            other.execute("ROLLBACK")
        await database.write(write)
    finally:
        await database.close()
