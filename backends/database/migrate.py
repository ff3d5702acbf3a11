"""Bring the tables to the version that this code knows, one server at a time."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy import text as sql
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from backends.database.engine import (
    SETTING,
    Database,
    database_file,
    prepare_sqlite,
)
from backends.database.faults import Faults
from backends.database.tables import metadata
from gateway.domain.errors import ConfigError

# Any number will do, if all our servers use the same.
_LOCK: Final = 0x6461736B666C6565
# Another server's migration may have much to copy.
_LOCK_WAIT_S: Final = 60
_FOLDER: Final = Path(__file__).parent / "migrations"


async def migrate(database: Database) -> None:
    """Bring ``database`` to the newest version; it is made if it is empty.

    Raises
    ------
    ConfigError
        If a newer version of ours has written it, or its folder cannot be
        written.
    Unavailable
        If it does not answer.
    """
    if database.is_in_memory:
        # It lives and ends with this process; it has no history.
        async def create(connection: object) -> None:
            await connection.run_sync(metadata.create_all)  # type: ignore[attr-defined]  # AsyncConnection

        await database.write(create)
        return
    # Alembic reads files and imports; a thread, and a loop of its own there.
    await asyncio.to_thread(_migrate, database.url)


def _migrate(url: URL) -> None:
    file = database_file(url)
    faults = Faults(url, setting=SETTING)
    script = _read_versions()
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        if file is None:
            asyncio.run(_upgrade(engine, script))
            return
        prepare_sqlite(engine)
        with _locked(file):
            asyncio.run(_upgrade(engine, script))
    except faults.classes as error:
        if file is not None and isinstance(error, OSError):
            text = f"cannot write {error.filename}: {error.strerror}"
            raise ConfigError([f"{SETTING}: {text}"]) from error
        raise faults.translate(error) from error


def _read_versions() -> ScriptDirectory:
    config = Config()
    # The path is a template to Alembic's reader of settings.
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    script.get_current_head()  # imports all versions, here and not later
    return script


async def _upgrade(engine: AsyncEngine, script: ScriptDirectory) -> None:
    try:
        async with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                wait = sql(f"SET LOCAL lock_timeout = '{_LOCK_WAIT_S}s'")
                await connection.execute(wait)
                lock = sql("SELECT pg_advisory_xact_lock(:key)")
                await connection.execute(lock, {"key": _LOCK})
            await connection.run_sync(_run_versions, script)
    finally:
        await engine.dispose()


def _run_versions(connection: Connection, script: ScriptDirectory) -> None:
    def plan(revision: Any, _context: object) -> Any:  # noqa: ANN401 - Alembic's types
        return script._upgrade_revs("head", revision)  # noqa: SLF001 - as Alembic's own commands do

    with EnvironmentContext(Config(), script, fn=plan) as environment:
        environment.configure(connection=connection)
        try:
            environment.run_migrations()
        except CommandError as error:
            text = (
                "the database was written by a newer version of daskfleet; install "
                f"that version, or restore a backup ({error})"
            )
            raise ConfigError([f"{SETTING}: {text}"]) from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Made here, so that it never has SQLite's open mode.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
