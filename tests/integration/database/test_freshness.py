import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.database.freshness import CommitStamp, Epochs, FreshMap


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


class Digest:
    """Counts the numbers, so that a changed one is no change that matters."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self.writer = writer
        self.asked = 0

    async def __call__(self) -> tuple[int, ...]:
        self.asked += 1
        return await asyncio.to_thread(self._count)

    def _count(self) -> tuple[int, ...]:
        row = self.writer.execute("SELECT count(*) FROM numbers").fetchone()
        return (int(row[0]),)


@pytest.fixture
def read(writer: sqlite3.Connection) -> Reader:
    return Reader(writer)


@pytest.fixture
def digest(writer: sqlite3.Connection) -> Digest:
    return Digest(writer)


@pytest.fixture
def kept(stamp: CommitStamp, digest: Digest) -> FreshMap[str, list[int]]:
    return FreshMap(Epochs(stamp, digest), 10, ttl_s=3600)


Kept = FreshMap[str, list[int]]


async def test_a_result_is_kept_until_a_change(
    kept: Kept, read: Reader, writer: sqlite3.Connection
) -> None:
    first = await kept.get("all", read)
    assert await kept.get("all", read) is first
    assert read.asked == 1
    writer.execute("INSERT INTO numbers VALUES (7)")

    assert await kept.get("all", read) == [7]
    assert read.asked == 2


async def test_a_commit_that_does_not_matter_costs_one_look_for_all_results(
    kept: Kept, read: Reader, digest: Digest, writer: sqlite3.Connection
) -> None:
    writer.execute("INSERT INTO numbers VALUES (1)")
    for key in "abc":
        await kept.get(key, read)
    looks = digest.asked

    writer.execute("UPDATE numbers SET n = 2")
    for key in "abc":
        assert await kept.get(key, read) == [1]

    assert (read.asked, digest.asked) == (3, looks + 1)


async def test_what_is_committed_while_a_read_runs_is_not_missed_afterwards(
    kept: Kept, read: Reader, writer: sqlite3.Connection
) -> None:
    async def overtaken() -> list[int]:
        found = await read()
        await asyncio.to_thread(writer.execute, "INSERT INTO numbers VALUES (7)")
        return found

    assert await kept.get("all", overtaken) == []

    assert await kept.get("all", read) == [7]


async def test_what_is_committed_while_a_look_runs_is_not_missed_by_later_calls(
    stamp: CommitStamp, read: Reader, writer: sqlite3.Connection
) -> None:
    held, is_looking = asyncio.Event(), asyncio.Event()

    async def slow() -> tuple[int, ...]:
        number = len(await read())
        is_looking.set()
        await held.wait()
        return (number,)

    epochs = Epochs(stamp, slow)
    async with asyncio.TaskGroup() as group:
        early = group.create_task(epochs.read())
        await is_looking.wait()
        await asyncio.to_thread(writer.execute, "INSERT INTO numbers VALUES (7)")
        late = group.create_task(epochs.read())
        held.set()

    assert late.result() != early.result()
    assert await epochs.read() == late.result()


async def test_calls_that_come_together_share_one_look(
    stamp: CommitStamp, digest: Digest
) -> None:
    epochs = Epochs(stamp, digest)

    found = await asyncio.gather(*(epochs.read() for _ in range(10)))

    assert len(set(found)) == 1
    assert digest.asked <= 2


async def test_a_result_does_not_outlive_its_time(
    stamp: CommitStamp, read: Reader, digest: Digest
) -> None:
    kept = FreshMap[str, list[int]](Epochs(stamp, digest), 10, ttl_s=0)

    await kept.get("all", read)
    await kept.get("all", read)

    assert read.asked == 2


async def test_without_a_stamp_every_read_is_made(read: Reader, digest: Digest) -> None:
    kept = FreshMap[str, list[int]](Epochs(CommitStamp(None), digest), 10, ttl_s=3600)

    await kept.get("all", read)
    await kept.get("all", read)

    assert (read.asked, digest.asked) == (2, 0)
