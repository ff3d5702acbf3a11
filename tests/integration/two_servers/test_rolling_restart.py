"""Servers are restarted one after the other, as for an upgrade: nobody notices."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.rest import Rest, calling
from tests.support.servers import Servers, running_servers, wait_ready_itself

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CHEAP = """
c.LocalClusterConfig.scheduler_cmd = ["sh", "-c", "exec sleep 600"]
c.DBBackendBase.cluster_start_timeout = 600
"""


@pytest.fixture
async def servers(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Servers]:
    url = postgres.create_database()
    async with running_servers(tmp_path, url, CHEAP) as running:
        await eventually(lambda: all(map(running.is_in_table, (running.a, running.b))))
        yield running


@dataclass
class Traffic:
    """Calls without a pause, until told to end; ``failed`` holds what went wrong."""

    rest: Rest
    failed: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    is_over: bool = False

    async def read(self) -> None:
        while not self.is_over:
            await self._expect(200, "GET", "/api/v1/clusters/")

    async def change(self) -> None:
        while not self.is_over:
            made = await self._expect(201, "POST", "/api/v1/clusters/", json={})
            if made is None:
                continue
            self.made.append(made["name"])
            path = f"/api/v1/clusters/{made['name']}"
            await self._expect(200, "POST", f"{path}/scale", json={"count": 0})
            await self._expect(204, "DELETE", path)

    async def _expect(self, want: int, method: str, path: str, **kwargs: Any) -> Any:
        reply = await self.rest.call(method, path, **kwargs)
        if reply.status != want:
            self.failed.append(f"{method} {path}: {reply.status} {reply.text}")
        return reply.json


async def test_no_call_fails_while_one_after_the_other_is_restarted(servers):
    async with calling(servers.address) as rest, asyncio.TaskGroup() as group:
        traffic = Traffic(rest)
        for work in (traffic.read, traffic.read, traffic.change):
            group.create_task(work())
        try:
            for server in (servers.a, servers.b):
                assert await asyncio.to_thread(server.terminate) == 0
                await eventually(lambda s=server: not servers.is_in_table(s))
                server.spawn()
                await asyncio.to_thread(wait_ready_itself, server)
                await eventually(lambda s=server: servers.is_in_table(s))
        finally:
            traffic.is_over = True

    assert traffic.failed == []
    assert len(traffic.made) > 3
    await eventually(lambda: not servers.jobs(), within=90)
