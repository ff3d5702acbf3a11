"""Two server processes on one database, with caps; their clusters cost nothing."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from argon2 import PasswordHasher

from tests.support.postgres import PostgresServer, running_postgres
from tests.support.rest import Rest, calling
from tests.support.servers import Servers, own_address, running_servers
from tests.support.stack import PASSWORD

CAPS = """
c.SimpleAuthenticator.password = None
c.SimpleAuthenticator.password_file = {passwords!r}

c.UserPolicy.default = {{"clusters": 3}}
c.UserPolicy.users = {{
    "worker-capped": {{"workers": 5}},
    "core-capped": {{"cores": 6}},
    "memory-capped": {{"memory": "10 G"}},
    "free": {{}},
    **{{f"member-{{n}}": {{"clusters": 3}} for n in range(3)}},
}}
c.UserPolicy.groups = {{
    "lab": {{"clusters": 4, "workers": 6}},
    "uncapped": {{}},
}}

from dask_gateway_server.options import Integer, Options

c.Backend.cluster_options = Options(
    Integer("worker_cores", default=1, min=1, max=64),
    Integer("scheduler_cores", default=1, min=1, max=64),
)
c.LocalClusterConfig.cluster_max_workers = 1000
c.LocalClusterConfig.worker_memory = "1 G"
c.LocalClusterConfig.scheduler_memory = "2 G"
# Schedulers that never call, and that nobody misses.
c.LocalClusterConfig.scheduler_cmd = ["sh", "-c", "exec sleep 600"]
c.DBBackendBase.cluster_start_timeout = 600
"""
# Groups, and who is an admin, as in the last fields of a password file.
USERS = {
    "alice": "",
    "worker-capped": "uncapped",
    "core-capped": "",
    "memory-capped": "",
    "free": "",
    "member-0": "lab",
    "member-1": "lab,uncapped",
    "member-2": "lab",
    "root": ":admin",
}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest_asyncio.fixture(
    params=["postgresql", "sqlite"], loop_scope="module", scope="module"
)
async def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    url = f"sqlite:///{folder}/shared.sqlite"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database()
    config = CAPS.format(passwords=str(write_passwords(folder)))
    async with running_servers(folder, url, config) as running:
        yield running


@pytest.fixture
async def pair(servers: Servers) -> AsyncIterator[tuple[Rest, Rest]]:
    """Calls to each server, not through the proxy; all clusters end with the test."""
    async with calling(servers.address) as public:
        yield public.at(own_address(servers.a)), public.at(own_address(servers.b))
        everybody = await public.get("/api/v1/clusters/?owner=*", user="root")
        for name in everybody:
            await public.stop(name, user="root")


def write_passwords(folder: Path) -> Path:
    """Write the users of `USERS`, all with one password, hashed cheaply."""
    path = folder / "passwords"
    hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    lines = [f"{name}:{hashed}:{rest}" for name, rest in USERS.items()]
    path.write_text("\n".join(lines) + "\n")
    return path
