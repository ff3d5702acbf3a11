"""Know without asking the database that what was read is still what it holds.

A read through a pooled connection takes half a millisecond of CPU and several
changes of thread, most of it for nothing: between two reads there was rarely a
commit. SQLite tells cheaply whether there was one, by any process. What is kept
here is therefore never ahead of the database and never behind it.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import Final, Generic, TypeVar

from gateway.aio.limits import ExpiringMap

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_QUESTION: Final = "PRAGMA data_version"


class CommitStamp:
    """A number that differs once anybody has committed to an SQLite file.

    Parameters
    ----------
    file
        ``None`` for a database that has no such number: PostgreSQL, or one in
        memory. Then there is never a stamp, and nothing is kept.

    Notes
    -----
    SQLite's documentation of ``PRAGMA data_version``: the value is unchanged
    for commits made on the same connection, and differs after one on any other.
    This connection never writes, so it sees every one. In WAL mode the question
    is answered from shared memory in some microseconds and never waits for a
    writer, which is why it may be asked on the event loop.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Connect; the file must exist. Does nothing if there is none."""
        if self._file is not None and self._connection is None:
            self._connection = await asyncio.to_thread(_connect, self._file)

    def close(self) -> None:
        """Disconnect; from now on there is no stamp."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self) -> int | None:
        """Return the stamp of what was committed last, ``None`` if nobody knows."""
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(_QUESTION).fetchone()
        except sqlite3.Error:
            # Being recovered, or gone: the read itself will tell.
            return None
        return int(row[0])


class FreshMap(Generic[K, V]):
    """Results of reads, each kept until the next commit to the database.

    Parameters
    ----------
    stamp
        Whether results may be kept at all, and until when.
    max_size
        Highest number of results.
    """

    def __init__(self, stamp: CommitStamp, max_size: int) -> None:
        self._stamp = stamp
        self._entries = ExpiringMap[K, tuple[int, V]](max_size)

    async def get(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Return what ``read`` returns, or returned since the last commit.

        The very same object comes back each time; it must not be changed.
        """
        # Before the read begins: what is committed meanwhile may not be in it.
        stamp = self._stamp.read()
        if stamp is None:
            return await read()
        entry = self._entries.get(key)
        if entry is not None and entry[0] == stamp:
            return entry[1]
        value = await read()
        self._entries.put(key, (stamp, value))
        return value


def _connect(file: Path) -> sqlite3.Connection:
    # Not waiting for a lock, on no account: it is asked on the event loop.
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,  # made in a thread, then used by the loop alone
    )
    # In memory from now on, so that the first question reads no file.
    connection.execute(_QUESTION).fetchone()
    return connection
