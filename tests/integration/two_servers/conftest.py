"""One PostgreSQL for the folder's tests; each takes a database of its own."""

from collections.abc import Iterator

import pytest

from tests.support.client_threads import start_client_threads
from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server
