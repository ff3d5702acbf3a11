"""kill -9 of the gateway, of Traefik and of both, in the middle of work."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from dask_gateway import BasicAuth, Gateway
from dask_gateway.client import ClusterStatus

from tests.support.client_threads import start_client_threads
from tests.support.eventually import eventually
from tests.support.stack import PASSWORD, Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

VICTIMS = ["gateway", "proxy", "both"]


@pytest.fixture(scope="session", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture
def stack(tmp_path: Path):
    with running_stack(tmp_path) as running:
        yield running


def connect(stack: Stack) -> Gateway:
    return Gateway(stack.address, auth=BasicAuth("alice", PASSWORD), asynchronous=True)


async def kill_and_restart(stack: Stack, victim: str) -> None:
    """Kill; the gateway is started again as its service manager would."""
    if victim in {"gateway", "both"}:
        await asyncio.to_thread(stack.kill)
    if victim in {"proxy", "both"}:
        assert await asyncio.to_thread(stack.kill_proxy)
    if victim in {"gateway", "both"}:
        await asyncio.to_thread(stack.spawn)


async def test_new_cluster_in_flight_survives_the_death_of_the_gateway(stack):
    async with connect(stack) as gateway:

        async def create():
            return await gateway.new_cluster()

        async with asyncio.TaskGroup() as group:
            creating = group.create_task(create())
            await eventually(lambda: bool(stack.jobs()))
            await kill_and_restart(stack, "gateway")
        cluster = creating.result()
        report = await gateway.get_cluster(cluster.name)
        assert report.status is ClusterStatus.RUNNING
        assert len(_schedulers(stack)) == 1
        await cluster.shutdown()
    await eventually(lambda: not stack.jobs(), within=60)


@pytest.mark.parametrize("victim", ["proxy", "both"])
async def test_a_cluster_that_starts_while_the_proxy_dies_can_be_connected_to(
    stack, victim
):
    async with connect(stack) as gateway:
        name = await gateway.submit()
        await eventually(lambda: bool(stack.jobs()))
        await kill_and_restart(stack, victim)
        await asyncio.to_thread(stack.wait_ready)
        async with (
            await gateway.connect(name) as cluster,
            cluster.get_client(set_as_default=False) as client,
        ):
            assert (await client.scheduler.identity())["workers"] == {}
        assert len(_schedulers(stack)) == 1
        await gateway.stop_cluster(name)
    await eventually(lambda: not stack.jobs(), within=60)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_computation_under_way_goes_on(stack, victim):
    # Workers have no `tests`: a nested function travels by value.
    def slow_pid(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    async with connect(stack) as gateway, await gateway.new_cluster() as cluster:
        await cluster.scale(1)
        async with cluster.get_client(set_as_default=False) as client:
            await client.wait_for_workers(1)
            pid = await client.submit(slow_pid, 0)
            # Started before and ended after the kill, on the same worker. A named
            # one, since a killed proxy cuts the client off, and Dask drops what
            # only a client that is gone had asked for.
            future = client.submit(slow_pid, 15)
            await client.publish_dataset(kept=future)
            await kill_and_restart(stack, victim)
            await asyncio.to_thread(stack.wait_ready)
        async with cluster.get_client(set_as_default=False) as client:
            assert await client.gather(await client.get_dataset("kept")) == pid
            await cluster.scale(2)
            await client.wait_for_workers(2)
        await gateway.stop_cluster(cluster.name)
        await eventually(lambda: not stack.jobs(), within=60)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_scale_accepted_before_the_kill_is_carried_out(stack, victim):
    async with connect(stack) as gateway:
        cluster = await gateway.new_cluster(shutdown_on_close=False)
        await gateway.scale_cluster(cluster.name, 2)
        await kill_and_restart(stack, victim)
        await asyncio.to_thread(stack.wait_ready)
        await eventually(lambda: _running(stack, cluster.name) == 2, within=90)
        assert len(_workers(stack)) == 2
        await gateway.stop_cluster(cluster.name)
        await cluster.close()
        await eventually(lambda: not stack.jobs(), within=60)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_stop_accepted_before_the_kill_leaves_nothing(stack, victim):
    async with connect(stack) as gateway:
        cluster = await gateway.new_cluster(shutdown_on_close=False)
        await cluster.scale(2)
        await eventually(lambda: _running(stack, cluster.name) == 2, within=90)
        await gateway.stop_cluster(cluster.name)
        await kill_and_restart(stack, victim)
        await asyncio.to_thread(stack.wait_ready)
        await cluster.close()
        await eventually(lambda: not stack.jobs(), within=60)
        await eventually(lambda: _status(stack, cluster.name) == "STOPPED", within=30)


def _running(stack: Stack, name: str) -> int:
    found = stack.get(f"/api/v1/clusters/{name}/workers")
    assert isinstance(found, dict)
    return sum(w["status"] == "Running" for w in found["workers"])


def _status(stack: Stack, name: str) -> str:
    found = stack.get(f"/api/v1/clusters/{name}")
    assert isinstance(found, dict)
    return str(found["status"])


def _schedulers(stack: Stack):
    return [p for p in stack.jobs() if "dask_scheduler" in " ".join(p.cmdline())]


def _workers(stack: Stack):
    return {
        w for p in stack.jobs() for w in p.cmdline() if "-worker-" in w and "/" not in w
    }
