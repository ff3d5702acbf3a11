"""What one server has accepted, the other one knows at once."""

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle

import pytest
import pytest_asyncio

from tests.support.eventually import eventually
from tests.support.rest import Rest, calling
from tests.support.servers import Servers, own_address, running_servers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# Schedulers that never call, and cost nothing: only requests change clusters.
CHEAP = """
c.LocalClusterConfig.scheduler_cmd = ["sh", "-c", "exec sleep 600"]
c.DBBackendBase.cluster_start_timeout = 600
c.UserPolicy.default = {"clusters": 100}
"""
ROUNDS = 20


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
    async with running_servers(folder, url, CHEAP) as running:
        yield running


@pytest.fixture
async def pair(servers: Servers) -> AsyncIterator[tuple[Rest, Rest]]:
    async with calling(servers.address) as public:
        yield public.at(own_address(servers.a)), public.at(own_address(servers.b))
        for name in await public.list_active():
            await public.stop(name)


async def test_a_new_cluster_is_found_and_listed(pair):
    for writer, reader in _turns(pair):
        name = await writer.create()

        found = await reader.get(f"/api/v1/clusters/{name}")
        assert (found["name"], found["status"]) == (name, "PENDING")
        assert name in await reader.list_active()
        await reader.stop(name)


async def test_a_stop_is_seen_by_get_and_list(pair):
    for writer, reader in _turns(pair):
        name = await writer.create()
        await writer.get(f"/api/v1/clusters/{name}")
        await reader.get(f"/api/v1/clusters/{name}")
        await writer.stop(name)

        assert await reader.status(name) in {"STOPPING", "STOPPED"}
        refused = await reader.call(
            "POST", f"/api/v1/clusters/{name}/scale", json={"count": 1}
        )
        assert refused.status == 409


async def test_sizes_count_in_what_the_owner_holds(pair):
    name = await pair[0].create()
    for number, (writer, reader) in enumerate(_turns(pair)):
        wanted = number % 5
        await writer.scale(name, wanted)
        assert await _count_held(reader) == wanted
        bounds = {"minimum": 0, "maximum": wanted + 2}
        path = f"/api/v1/clusters/{name}/adapt"
        reply = await reader.call("POST", path, json=bounds)
        assert reply.status == 200
        assert await _count_held(writer) == wanted + 2


async def test_a_session_of_one_is_known_to_the_other(pair):
    first, second = pair
    reply = await first.call("GET", "/api/v1/me")
    session = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}

    other = await second.call("GET", "/api/v1/me", user=None, headers=session)

    assert (other.status, other.json["name"]) == (200, "alice")


async def test_a_wait_at_one_ends_by_a_stop_at_the_other(pair):
    first, second = pair
    name = await first.create()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(first.get(f"/api/v1/clusters/{name}?wait"))
        await second.stop(name)

    assert waiting.result()["status"] in {"STOPPING", "STOPPED"}


async def test_the_proxy_sends_calls_to_both(servers, pair):
    """Each server counts the requests that it answered."""
    public = pair[0].at(servers.address)
    await eventually(lambda: all(map(servers.is_in_table, (servers.a, servers.b))))
    before = [await _count_answers(rest) for rest in pair]

    async def both_answered() -> bool:
        await public.get("/api/v1/me")
        now = [await _count_answers(rest) for rest in pair]
        return all(n > b for n, b in zip(now, before, strict=True))

    await eventually(both_answered)


def _turns(pair: tuple[Rest, Rest]):
    for _, (writer, reader) in zip(
        range(ROUNDS), cycle([pair, pair[::-1]]), strict=False
    ):
        yield writer, reader


async def _count_held(rest: Rest) -> int:
    [share] = (await rest.get("/api/v1/me"))["usage"]
    return share["used"]["workers"]


async def _count_answers(rest: Rest) -> float:
    text = (await rest.call("GET", "/metrics", user=None)).text
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("daskfleet_") and '"/api/v1/me"' in line and "_total" in line
    )
