import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.database.freshness import CommitStamp, FreshMap


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a name with ? and #.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (n INTEGER)")
        connection.commit()
    return path


@pytest.fixture
def writer(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    ) as connection:
        yield connection


@pytest.fixture
async def stamp(file: Path) -> AsyncIterator[CommitStamp]:
    stamp = CommitStamp(file)
    await stamp.open()
    yield stamp
    stamp.close()


async def test_the_stamp_stays_while_nobody_commits(
    stamp: CommitStamp, writer: sqlite3.Connection
) -> None:
    before = stamp.read()
    assert before is not None

    writer.execute("SELECT count(*) FROM numbers").fetchone()

    assert stamp.read() == before


async def test_the_stamp_changes_with_a_commit_and_not_before(
    stamp: CommitStamp, writer: sqlite3.Connection
) -> None:
    before = stamp.read()

    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO numbers VALUES (1)")
    assert stamp.read() == before
    writer.execute("COMMIT")

    assert stamp.read() != before


async def test_asking_does_not_wait_for_a_writer_and_does_not_hold_one_up(
    stamp: CommitStamp, writer: sqlite3.Connection
) -> None:
    writer.execute("BEGIN IMMEDIATE")
    assert stamp.read() is not None
    writer.execute("INSERT INTO numbers VALUES (1)")
    writer.execute("COMMIT")

    assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


async def test_without_a_file_there_is_never_a_stamp() -> None:
    stamp = CommitStamp(None)
    await stamp.open()

    assert stamp.read() is None


async def test_a_closed_stamp_knows_nothing(stamp: CommitStamp) -> None:
    stamp.close()

    assert stamp.read() is None


class Reader:
    def __init__(self, writer: sqlite3.Connection) -> None:
        self.writer = writer
        self.asked = 0

    async def __call__(self) -> list[int]:
        self.asked += 1
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[int]:
        return [n for (n,) in self.writer.execute("SELECT n FROM numbers")]


async def test_a_result_is_kept_until_a_commit(
    stamp: CommitStamp, writer: sqlite3.Connection
) -> None:
    kept, read = FreshMap[str, list[int]](stamp, 10), Reader(writer)

    first = await kept.get("all", read)
    assert await kept.get("all", read) is first
    assert read.asked == 1
    writer.execute("INSERT INTO numbers VALUES (7)")

    assert await kept.get("all", read) == [7]
    assert read.asked == 2


async def test_what_is_committed_while_a_read_runs_is_not_missed_afterwards(
    stamp: CommitStamp, writer: sqlite3.Connection
) -> None:
    kept, read = FreshMap[str, list[int]](stamp, 10), Reader(writer)

    async def overtaken() -> list[int]:
        found = await read()
        await asyncio.to_thread(writer.execute, "INSERT INTO numbers VALUES (7)")
        return found

    assert await kept.get("all", overtaken) == []

    assert await kept.get("all", read) == [7]


async def test_without_a_stamp_every_read_is_made(writer: sqlite3.Connection) -> None:
    kept, read = FreshMap[str, list[int]](CommitStamp(None), 10), Reader(writer)

    await kept.get("all", read)
    await kept.get("all", read)

    assert read.asked == 2
