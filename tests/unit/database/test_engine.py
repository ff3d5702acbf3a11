import sqlite3

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from backends.database.engine import database_file, is_in_memory, parse_url
from backends.database.faults import Faults
from gateway.domain.errors import ConfigError, InvariantError, Unavailable

PASSWORD = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("sqlite://", "sqlite+aiosqlite://"),
        ("sqlite:////srv/a.sqlite", "sqlite+aiosqlite:////srv/a.sqlite"),
        ("postgresql://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgres://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql+psycopg2://u@h/d", "postgresql+asyncpg://u@h/d"),
        (
            "postgresql://u@h/d?sslmode=require",
            "postgresql+asyncpg://u@h/d?ssl=require",
        ),
    ],
)
def test_sites_urls_get_a_driver_that_does_not_block(text, want):
    assert parse_url(text).render_as_string() == want


@pytest.mark.parametrize(
    "text", ["", "nonsense", "mysql://u@h/d", f"oracle://u:{PASSWORD}@h/d", "://"]
)
def test_other_databases_are_refused_by_the_name_of_the_setting(text):
    with pytest.raises(ConfigError, match=r"DBBackendBase\.db_url") as caught:
        parse_url(text)

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "in_memory", "file"),
    [
        ("sqlite://", True, None),
        ("sqlite:///:memory:", True, None),
        ("sqlite:////srv/a.sqlite", False, "/srv/a.sqlite"),
        ("postgresql://u@h/d", False, None),
    ],
)
def test_where_a_database_is_kept(text, in_memory, file):
    url = parse_url(text)

    found = database_file(url)
    assert is_in_memory(url) is in_memory
    assert (None if found is None else str(found)) == file


SQLITE = Faults(parse_url("sqlite://"), setting="S")
POSTGRESQL = Faults(parse_url("postgresql://u@h/d"), setting="S")


def wrapped(cause: Exception, *, lost: bool = False) -> DBAPIError:
    """Return what SQLAlchemy makes of a driver's error."""
    adapted = RuntimeError("adapted")
    adapted.__cause__ = cause
    return DBAPIError("SELECT", {}, adapted, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("faults", "error", "want"),
    [
        (SQLITE, TimeoutError(), Unavailable),
        (SQLITE, PoolTimeout(), Unavailable),
        (SQLITE, OSError("refused"), Unavailable),
        (SQLITE, wrapped(sqlite3.OperationalError("locked")), Unavailable),
        (SQLITE, wrapped(sqlite3.DatabaseError("no database")), ConfigError),
        (SQLITE, DBAPIError("SELECT", {}, ValueError()), InvariantError),
        (POSTGRESQL, wrapped(ValueError(), lost=True), Unavailable),
        (POSTGRESQL, asyncpg.CannotConnectNowError("starting"), Unavailable),
        (POSTGRESQL, wrapped(asyncpg.AdminShutdownError("bye")), Unavailable),
        (POSTGRESQL, wrapped(asyncpg.TooManyConnectionsError("no")), Unavailable),
        (POSTGRESQL, wrapped(asyncpg.DeadlockDetectedError("no")), Unavailable),
        (POSTGRESQL, asyncpg.InvalidPasswordError("no"), ConfigError),
        (POSTGRESQL, asyncpg.InvalidCatalogNameError("no"), ConfigError),
        (POSTGRESQL, wrapped(asyncpg.UndefinedTableError("no")), InvariantError),
    ],
)
def test_drivers_errors_become_ours(faults, error, want):
    assert isinstance(error, faults.classes)
    assert type(faults.translate(error)) is want
