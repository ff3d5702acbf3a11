"""A gateway as a real process on PostgreSQL, with schedulers that cost nothing."""

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import pytest
import requests

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, find_binaries, running_postgres
from tests.support.stack import PASSWORD, Stack, running_stack

CONFIG = """
c.DBBackendBase.db_url = {url!r}
c.SimpleAuthenticator.admin_users = {{"root"}}
c.LocalClusterConfig.scheduler_cmd = ["sh", "-c", "echo a line; exec sleep 3600"]
c.DBBackendBase.cluster_start_timeout = 3600
# So that what creates is refused soon, and little runs.
c.UserPolicy.default = {{"clusters": 2, "workers": 5}}

from dask_gateway_server.options import Float, Integer, Options, Select, String

c.Backend.cluster_options = Options(
    Integer("worker_cores", default=1, min=1, max=4),
    Float("factor", default=1, min=0.5, max=8),
    Select("size", ["small", ("large", 8)]),
    String("mark", default="none"),
    handler=lambda options: {{"worker_cores": options.worker_cores}},
)
"""
# Only requests change these; versions also grow by what is observed.
WANTED = """
SELECT name, owner, active, generation, replicas, adaptive_id, adaptive_minimum,
  adaptive_maximum, (SELECT count(*) FROM memberships m WHERE m.cluster_id = c.id),
  (SELECT md5(s::text) FROM specs s WHERE s.cluster_id = c.id)
FROM clusters c ORDER BY id
"""
# What a scheduler's report leaves behind.
REPORTED = """
SELECT name, scheduler_port, dashboard_port,
  (SELECT md5(b::text) FROM beats b WHERE b.cluster_id = c.id)
FROM clusters c ORDER BY id
"""


def make_session() -> requests.Session:
    """Return a session that keeps connections, but no cookies: they are logins."""
    session = requests.Session()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return session


@dataclass
class World:
    """The gateway, and what its database holds.

    Parameters
    ----------
    address
        Of the gateway itself: the proxy serves less.
    """

    stack: Stack
    url: str
    address: str
    session: requests.Session = field(default_factory=make_session)
    name: str = ""

    def call(self, method: str, path: str, user: str = "alice", **kwargs):
        """Send a well-formed request."""
        return self.session.request(
            method, self.address + path, auth=(user, PASSWORD), timeout=60, **kwargs
        )

    def ensure_cluster(self) -> str:
        """Return the name of a cluster of alice's that nobody has stopped."""
        if not self.name:
            active = sorted(self.call("GET", "/api/v1/clusters/").json())
            if not active:
                reply = self.call("POST", "/api/v1/clusters/", json={})
                assert reply.status_code == 201, reply.text
                active = [reply.json()["name"]]
            self.name = active[0]
        return self.name

    def read_token(self, name: str) -> str:
        """Return the token of a cluster, as its scheduler has it."""
        folder = self.stack.directory / "data" / "clusters" / name / "scheduler"
        path = folder / "files" / "api-token"
        # It is accepted before it is started.
        asyncio.run(eventually(path.exists, within=60))
        return path.read_text()

    def look(self) -> str:
        """Return all that a refused call must not change."""
        binaries = find_binaries()
        assert binaries is not None
        command = [binaries / "psql", self.url, "-AtX", "-c", WANTED, "-c", REPORTED]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def world(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    url = postgres.create_database()
    folder: Path = tmp_path_factory.mktemp("stack")
    with running_stack(folder, CONFIG.format(url=url)) as stack:
        found = World(stack, url, f"http://127.0.0.1:{stack.private}")
        with found.session:
            yield found
