"""Connections to SQLite or PostgreSQL, with one place where errors are translated.

Every read and write of the backend goes through `Database`; statements stand in
``store`` and its neighbours.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from backends.database.faults import Faults
from gateway.domain.errors import ConfigError, Unavailable

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

SETTING: Final = "DBBackendBase.db_url"

# More than enough for one event loop; PostgreSQL allows 100 in all by default.
_POOL_SIZE: Final = 10
_READERS: Final = 4
# Marks connections on which a statement is its own transaction.
_IS_READER: Final = "daskfleet_reader"


class Database:
    """One database, shared by all servers that are given its URL.

    Parameters
    ----------
    url
        As parsed by `parse_url`.
    timeout_s
        Longest time of one read or write, connecting and waiting for a free
        connection included.
    echo
        Log every statement, without its parameters.
    """

    def __init__(
        self, url: URL, *, timeout_s: float = 10.0, echo: bool = False
    ) -> None:
        self.url = url
        self.is_postgresql = url.get_backend_name() == "postgresql"
        self._timeout_s = timeout_s
        self._faults = Faults(url, setting=SETTING)
        self._calls: set[asyncio.Task[Any]] = set()
        self._writer, self._reader = _make_engines(url, timeout_s, echo=echo)

    @property
    def is_in_memory(self) -> bool:
        """Whether it ends with this object."""
        return is_in_memory(self.url)

    async def read(self, work: Work[T]) -> T:
        """Return what ``work`` makes of a connection; it may be run twice.

        Each statement sees what was committed before it began.

        Raises
        ------
        Unavailable
            If the database does not answer in time.
        """

        async def attempt() -> T:
            async with self._reader.connect() as connection:
                return await work(connection)

        try:
            return await self._bound(attempt)
        except _Stale:
            return await self._bound(attempt, is_last=True)

    async def write(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction; what it returns was committed.

        It may be run twice, but then nothing of the first time was kept. Any
        exception undoes all of it.

        Raises
        ------
        Unavailable
            If the database does not answer in time. Then it may have been
            committed all the same.
        """
        has_worked = False

        async def attempt() -> T:
            nonlocal has_worked
            async with self._writer.begin() as connection:
                result = await work(connection)
                has_worked = True
            return result

        try:
            return await self._bound(attempt)
        except _Stale:
            if has_worked:
                raise Unavailable("the database was lost during a commit") from None
            return await self._bound(attempt, is_last=True)

    async def connect(self) -> AsyncConnection:
        """Return a connection of the caller's own, for listening; close it after."""
        async with asyncio.timeout(self._timeout_s):
            return await self._reader.connect()

    async def close(self) -> None:
        """Close all connections, once what is under way has ended."""
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._writer.dispose()
        await self._reader.dispose()

    async def _bound(
        self, attempt: Callable[[], Awaitable[T]], *, is_last: bool = False
    ) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._run(attempt)
        except self._faults.classes as error:
            is_stale = isinstance(error, DBAPIError) and error.connection_invalidated
            if is_stale and not is_last:
                raise _Stale from error  # it was restarted; a fresh one may do
            raise self._faults.translate(error) from error

    async def _run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run ``attempt``; on SQLite to its end, whatever becomes of the caller.

        A connection on which a call was cancelled is closed. That is right where
        a server may be frozen, but takes a database in memory with it, and a held
        call of the API is cancelled whenever its time is over.
        """
        if self.is_postgresql:
            return await attempt()
        task = asyncio.get_running_loop().create_task(_as_coroutine(attempt))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # whoever wanted it may be gone


class _Stale(Exception):
    """A pooled connection had died."""


async def _as_coroutine(attempt: Callable[[], Awaitable[T]]) -> T:
    return await attempt()


def parse_url(text: str) -> URL:
    """Return the URL of a database, with an asynchronous driver.

    Raises
    ------
    ConfigError
        If it is neither SQLite's nor PostgreSQL's, or its driver is missing.
    """
    try:
        url = make_url(text.replace("postgres://", "postgresql://", 1))
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise ConfigError([f"{SETTING}: is not a database URL"]) from error
    if backend == "sqlite":
        return url.set(drivername="sqlite+aiosqlite")
    if backend == "postgresql":
        if find_spec("asyncpg") is None:
            text = "PostgreSQL needs a driver: install daskfleet[postgresql]"
            raise ConfigError([f"{SETTING}: {text}"])
        query = dict(url.query)
        if "sslmode" in query:  # libpq's name for what asyncpg calls ssl
            query["ssl"] = query.pop("sslmode")
        return url.set(drivername="postgresql+asyncpg", query=query)
    raise ConfigError(
        [f"{SETTING}: must begin with sqlite:// or postgresql://, got {backend}://"]
    )


def is_in_memory(url: URL) -> bool:
    """Return whether ``url`` is of an SQLite database that no file holds."""
    return url.get_backend_name() == "sqlite" and url.database in (
        None,
        "",
        ":memory:",
    )


def database_file(url: URL) -> Path | None:
    """Return the file of an SQLite database, ``None`` if there is none."""
    if url.get_backend_name() != "sqlite" or is_in_memory(url):
        return None
    return Path(str(url.database))


def prepare_sqlite(engine: AsyncEngine) -> None:
    """Make connections of ``engine`` safe for several processes on one file."""
    event.listen(engine.sync_engine, "connect", _configure_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)


def _make_engines(
    url: URL, timeout_s: float, *, echo: bool
) -> tuple[AsyncEngine, AsyncEngine]:
    options: dict[str, Any] = {
        "echo": echo,
        "hide_parameters": True,  # secrets and users' options are among them
        "pool_timeout": timeout_s,
        "json_serializer": _format_json,
        "json_deserializer": msgspec.json.decode,
        "max_overflow": 0,
    }
    if url.get_backend_name() == "postgresql":
        writer = create_async_engine(
            url,
            pool_size=_POOL_SIZE,
            connect_args={
                "timeout": timeout_s,
                "command_timeout": timeout_s,
                # A server that is frozen or cut off in a transaction must not
                # keep its locks: the others wait for them.
                "server_settings": {
                    "idle_in_transaction_session_timeout": str(round(timeout_s * 1000))
                },
            },
            **options,
        )
        return writer, writer.execution_options(isolation_level="AUTOCOMMIT")
    # One writer: our own wait in turn here, rather than in SQLite's busy loop.
    options["poolclass"] = AsyncAdaptedQueuePool  # in memory it would be another
    writer = create_async_engine(url, pool_size=1, **options)
    prepare_sqlite(writer)
    if is_in_memory(url):
        return writer, writer.execution_options(**{_IS_READER: True})
    reader = create_async_engine(url, pool_size=_READERS, **options)
    prepare_sqlite(reader)
    return writer, reader.execution_options(**{_IS_READER: True})


def _configure_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - SQLAlchemy's adapter has no public type
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    # FULL: what was accepted outlives a power cut, not only our own end.
    for pragma in (
        "busy_timeout=5000",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then wants to write can only fail if
    # another has written meanwhile; so a writer is one from the start.
    if not connection.get_execution_options().get(_IS_READER):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _format_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
