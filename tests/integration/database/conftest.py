from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    """Return the URL of a new database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/db.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def sqlite_url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/db.sqlite"
