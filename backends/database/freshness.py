"""Know without reading that what was read is still what the database holds.

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


class Epochs:
    """Numbers the states of the database that differ in what is asked for.

    Parameters
    ----------
    stamp
        Tells that something was committed, be it a lease or a heartbeat.
    read_digest
        Then tells whether it was anything that matters: differs if so.
    """

    def __init__(
        self,
        stamp: CommitStamp,
        read_digest: Callable[[], Awaitable[tuple[int, ...]]],
    ) -> None:
        self._stamp = stamp
        self._read_digest = read_digest
        self._turn = asyncio.Lock()
        self._begun = 0
        self._done = 0
        self._seen: int | None = None
        self._digest: tuple[int, ...] | None = None
        self._epoch = 0

    async def read(self) -> int | None:
        """Return the number of the present state, ``None`` if nobody knows it.

        What is read afterwards is of that state or of a later one.

        Raises
        ------
        Unavailable
            If the database does not answer.
        """
        seen = self._stamp.read()
        if seen is None:
            return None
        if seen != self._seen:
            await self._look()
        return self._epoch

    async def _look(self) -> None:
        arrived = self._begun
        async with self._turn:
            if self._done > arrived:
                return  # somebody looked after this call had come
            self._begun += 1
            begun = self._begun
            seen = self._stamp.read()  # before the digest, lest a commit is missed
            digest = await self._read_digest()
            if digest != self._digest:
                self._digest = digest
                self._epoch += 1
            self._seen = seen
            self._done = begun


class FreshMap(Generic[K, V]):
    """Results of reads, each kept until the database has changed.

    Parameters
    ----------
    epochs
        Whether results may be kept at all, and until when.
    max_size
        Highest number of results.
    ttl_s
        Longest time that a result is kept, in seconds: some depend on the time
        as well, such as a certificate that is soon to be renewed.
    """

    def __init__(self, epochs: Epochs, max_size: int, *, ttl_s: float) -> None:
        self._epochs = epochs
        self._entries = ExpiringMap[K, tuple[int, V]](max_size, ttl_s)

    async def get(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Return what ``read`` returns, or returned since the last change.

        The very same object comes back each time; it must not be changed.
        """
        # Before the read begins: what changes meanwhile may not be in it.
        epoch = await self._epochs.read()
        if epoch is None:
            return await read()
        entry = self._entries.get(key)
        if entry is not None and entry[0] == epoch:
            return entry[1]
        value = await read()
        self._entries.put(key, (epoch, value))
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
