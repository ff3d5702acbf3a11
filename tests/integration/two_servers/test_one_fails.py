"""One of two servers is killed or frozen: the other one carries on, and alone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dask_gateway import BasicAuth, Gateway, GatewayCluster

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.rest import Rest, calling
from tests.support.servers import (
    LEASE_S,
    Servers,
    own_address,
    running_servers,
    wait_ready_itself,
)
from tests.support.stack import PASSWORD, Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

# Long enough for a slow machine: it is only waited for if something is wrong.
WITHIN = 120
STEPS = ["accepted", "scheduler-started", "scheduler-connected"]


@pytest.fixture
async def servers(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Servers]:
    async with running_servers(tmp_path, postgres.create_database()) as running:
        await eventually(lambda: all(map(running.is_in_table, (running.a, running.b))))
        yield running
        again = {job: n for job, n in running.count_starts().items() if n > 1}
        assert not again


@pytest.fixture
async def rest(servers: Servers) -> AsyncIterator[Rest]:
    """Calls through the proxy, whichever server they reach."""
    async with calling(servers.address) as public:
        yield public


def kill(server: Stack) -> None:
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(30)


async def restart(server: Stack) -> None:
    server.spawn()
    await asyncio.to_thread(wait_ready_itself, server)


def freeze(server: Stack) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)


def wake(server: Stack) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGCONT)


async def reach(servers: Servers, rest: Rest, name: str, want: str) -> None:
    async def is_there() -> bool:
        status = await rest.status(name)
        assert status == want, f"{status}\n{servers.tail()}"
        return True

    await eventually(is_there, within=WITHIN, every=0.2)


async def reach_workers(rest: Rest, name: str, number: int) -> None:
    async def are_there() -> bool:
        return await rest.count_workers(name) == number

    await eventually(are_there, within=WITHIN, every=0.2)


async def end(servers: Servers, rest: Rest, name: str) -> None:
    """Stop a cluster, and see that nothing is left of any."""
    await rest.stop(name)
    await reach(servers, rest, name, "STOPPED")
    await eventually(lambda: not servers.jobs(), within=WITHIN)


async def until(servers: Servers, rest: Rest, name: str, step: str) -> None:
    """Wait until a start has come to ``step``."""
    if step == "accepted":
        return
    await eventually(lambda: servers.count_starts()[f"{name}/scheduler"] == 1, every=0)
    if step == "scheduler-connected":

        async def has_connected() -> bool:
            events = (await rest.get(f"/api/v1/clusters/{name}/events"))["events"]
            return "SchedulerConnected" in {event["reason"] for event in events}

        await eventually(has_connected, within=WITHIN, every=0)


async def test_a_start_goes_on_when_the_server_that_began_it_is_killed(servers, rest):
    victim, heir = servers.a, servers.b
    for step in STEPS:
        name = await rest.at(own_address(victim)).create()
        other = rest.at(own_address(heir))
        await until(servers, other, name, step)
        kill(victim)

        await reach(servers, other, name, "RUNNING")
        assert servers.count_starts()[f"{name}/scheduler"] == 1
        await eventually(lambda v=victim: not servers.is_in_table(v), within=WITHIN)
        await end(servers, rest, name)
        await restart(victim)
        victim, heir = heir, victim


async def test_the_stock_clients_new_cluster_survives_the_death_of_either(
    servers, rest
):
    async with Gateway(
        servers.address, auth=BasicAuth("alice", PASSWORD), asynchronous=True
    ) as gateway:
        for victim in (servers.a, servers.b):
            async with asyncio.TaskGroup() as group:
                creating = group.create_task(_create(gateway))
                before = len(servers.count_starts())
                await eventually(
                    lambda b=before: len(servers.count_starts()) > b, within=WITHIN
                )
                kill(victim)
            cluster = creating.result()
            await restart(victim)
            await cluster.scale(1)
            async with cluster.get_client(set_as_default=False) as client:
                assert await client.submit(pow, 6, 2) == 36
            name = cluster.name
            await cluster.shutdown()
            await reach(servers, rest, name, "STOPPED")
    await eventually(lambda: not servers.jobs(), within=WITHIN)


async def test_a_scale_and_a_stop_are_carried_out_when_the_one_that_took_them_dies(
    servers, rest
):
    first, second = (rest.at(own_address(s)) for s in (servers.a, servers.b))
    name = await first.create()
    await reach(servers, first, name, "RUNNING")

    await first.scale(name, 2)
    kill(servers.a)
    await reach_workers(second, name, 2)
    workers = [job for job in servers.count_starts() if job.startswith(f"{name}/")]
    assert len(workers) == 3, "a scheduler and two workers, each started once"

    await restart(servers.a)
    await second.scale(name, 1)
    kill(servers.b)
    await reach_workers(first, name, 1)

    await first.stop(name)
    kill(servers.a)
    await restart(servers.b)
    await reach(servers, second, name, "STOPPED")
    await eventually(lambda: not servers.jobs(), within=WITHIN)


async def test_one_that_is_frozen_longer_than_its_lease_does_no_harm_when_it_wakes(
    servers, rest
):
    """Frozen in the middle of a start, the other one does the whole life of it."""
    name = await rest.at(own_address(servers.a)).create()
    other = rest.at(own_address(servers.b))
    freeze(servers.a)
    await reach(servers, other, name, "RUNNING")
    await other.scale(name, 1)
    await reach_workers(other, name, 1)
    await eventually(lambda: not servers.is_in_table(servers.a), within=WITHIN)
    for _ in range(5):  # the proxy asks the frozen one no more
        assert name in await rest.list_active()
    await other.stop(name)
    await reach(servers, other, name, "STOPPED")
    await eventually(lambda: not servers.jobs(), within=WITHIN)
    started = servers.count_starts()

    wake(servers.a)
    woken = rest.at(own_address(servers.a))
    await eventually(lambda: servers.is_in_table(servers.a), within=WITHIN)

    assert await woken.status(name) == "STOPPED"
    assert not servers.jobs()
    assert servers.count_starts() == started
    fresh = await woken.create()
    await reach(servers, other, fresh, "RUNNING")
    await end(servers, rest, fresh)


@pytest.mark.parametrize(
    "frozen_s", [LEASE_S * 2, pytest.param(LEASE_S * 10, marks=pytest.mark.nightly)]
)
async def test_one_that_wakes_in_the_middle_of_the_others_work_does_no_harm(
    servers, rest, frozen_s
):
    """Both believe for a moment that the cluster is theirs."""
    first, second = (rest.at(own_address(s)) for s in (servers.a, servers.b))
    name = await first.create()
    await reach(servers, first, name, "RUNNING")
    freeze(servers.a)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + frozen_s
    wanted = 0
    while loop.time() < until_s:
        wanted = 1 + wanted % 2
        await second.scale(name, wanted)
        await reach_workers(second, name, wanted)
    await second.scale(name, 0)
    wake(servers.a)
    await first.scale(name, 2)

    await reach_workers(first, name, 2)
    await reach_workers(second, name, 2)
    await end(servers, rest, name)


async def _create(gateway: Gateway) -> GatewayCluster:
    return await gateway.new_cluster()
