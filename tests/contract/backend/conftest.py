from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio

from gateway.domain.policy import Policy
from tests.support.backend_subject import Subject, database_subject, memory_subject
from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres():
    with running_postgres() as server:
        yield server


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> Policy:
    """No caps, unless a test is parametrised with some."""
    return getattr(request, "param", Policy())


@pytest_asyncio.fixture(
    params=[
        "memory",
        "sqlite-in-memory",
        "sqlite",
        "sqlite-two-servers",
        pytest.param("postgresql-two-servers", marks=pytest.mark.integration),
    ]
)
async def subject(
    request: pytest.FixtureRequest, policy: Policy, tmp_path
) -> AsyncIterator[Subject]:
    async with _make(request, policy, f"sqlite:///{tmp_path}/db.sqlite") as made:
        yield made


def _make(
    request: pytest.FixtureRequest, policy: Policy, file: str
) -> AbstractAsyncContextManager[Subject]:
    match request.param:
        case "memory":
            return memory_subject(policy)
        case "sqlite-in-memory":
            return database_subject("sqlite://", policy)
        case "sqlite":
            return database_subject(file, policy)
        case "sqlite-two-servers":
            return database_subject(file, policy, servers=2)
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            return database_subject(server.create_database(), policy, servers=2)
