"""Gateways that are told to end, and the next ones: restarts, upgrades, absences."""

import asyncio
import base64
import os
import signal
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from dask_gateway.client import ClusterStatus

from tests.support.client_threads import start_client_threads
from tests.support.cluster_processes import find_schedulers, find_workers
from tests.support.eventually import eventually
from tests.support.lives import connected, open_session, running_workers, status_of
from tests.support.stack import PASSWORD, Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# A scheduler that takes a while to start, so that a restart falls in between.
SLOW = f"""
_late = "sleep 6; exec {sys.executable} -m distributed.cli.dask_scheduler $*"
c.LocalClusterConfig.scheduler_cmd = ["sh", "-c", _late, "sh"]
"""


@pytest.fixture(scope="module", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture
def stack(tmp_path: Path):
    with running_stack(tmp_path) as running:
        yield running


@pytest.fixture
def slow_stack(tmp_path: Path):
    with running_stack(tmp_path, SLOW) as running:
        yield running


async def restart(stack: Stack) -> None:
    """End a gateway as a service manager does, and start the next one."""
    assert await asyncio.to_thread(stack.terminate) == 0
    await asyncio.to_thread(stack.spawn)
    await asyncio.to_thread(stack.wait_ready)


async def wait_for(stack: Stack, port: int, cluster: str) -> tuple[int, str, bool]:
    """Make one ``?wait`` call; return its status, the cluster's, and who lived."""
    url = f"http://127.0.0.1:{port}/api/v1/clusters/{cluster}?wait"
    token = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Basic {token}"}) as http,
        http.get(url, timeout=aiohttp.ClientTimeout(60)) as response,
    ):
        record = await response.json()
        assert stack.process is not None
        return response.status, record["status"], stack.process.poll() is None


async def test_waits_are_answered_before_a_gateway_ends(slow_stack):
    """Whoever comes to the ending gateway itself gets the record as it is."""
    stack = slow_stack
    async with open_session(stack) as session:
        cluster = await session.submit()
        await eventually(lambda: bool(stack.jobs()))
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(wait_for(stack, port, cluster))
                for port in (stack.private, stack.port)
            ]
            began = time.monotonic()
            await eventually(lambda: time.monotonic() > began + 1)
            assert not any(call.done() for call in calls)
            assert await asyncio.to_thread(stack.terminate) == 0
        assert [call.result() for call in calls] == [(200, "PENDING", True)] * 2
        await asyncio.to_thread(stack.spawn)
        await asyncio.to_thread(stack.wait_ready)
        await session.stop_cluster(cluster)
    await eventually(lambda: not stack.jobs(), within=60)


async def test_new_cluster_in_flight_survives_a_restart(slow_stack):
    stack = slow_stack
    async with open_session(stack) as session:

        async def create():
            return await session.new_cluster()

        async with asyncio.TaskGroup() as group:
            creating = group.create_task(create())
            await eventually(lambda: bool(stack.jobs()))
            await restart(stack)
        cluster = creating.result()
        report = await session.get_cluster(cluster.name)
        assert report.status is ClusterStatus.RUNNING
        assert len(find_schedulers(stack, cluster.name)) == 1
        await cluster.scale(1)
        async with cluster.get_client(set_as_default=False) as client:
            assert await client.submit(sum, range(10)) == 45
        await cluster.shutdown()
    await eventually(lambda: not stack.jobs(), within=60)


async def test_an_upgrade_leaves_clusters_clients_and_computations_alone(stack):
    """Two clusters, each computing for an open client while the gateway changes."""

    # Workers have no `tests`: a nested function travels by value.
    def pid_after(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    async with open_session(stack) as session:
        names = [await session.submit() for _ in range(2)]
        for name in names:
            await session.scale_cluster(name, 1)
        for name in names:
            await eventually(lambda n=name: running_workers(stack, n), within=120)
        async with connected(stack, names[0]) as one, connected(stack, names[1]) as two:
            futures = [client.submit(pid_after, 8) for client in (one, two)]
            before = [
                (find_schedulers(stack, n), find_workers(stack, n)) for n in names
            ]
            await restart(stack)
            got = [await one.gather(futures[0]), await two.gather(futures[1])]
            after = [(find_schedulers(stack, n), find_workers(stack, n)) for n in names]
            assert after == before
            assert len(set(got)) == 2
            # The clients' own connections went on, by way of the same proxy.
            assert await one.submit(sum, range(10)) == 45
        for name in names:
            assert status_of(stack, name) == "RUNNING"
            await session.scale_cluster(name, 0)
            await eventually(lambda n=name: not find_workers(stack, n), within=60)
            await session.stop_cluster(name)
    await eventually(lambda: not stack.jobs(), within=60)


async def test_a_worker_that_dies_while_nobody_looks_is_replaced(stack):
    async with open_session(stack) as session:
        name = await session.submit()
        await session.scale_cluster(name, 1)
        await eventually(lambda: running_workers(stack, name), within=120)
        ((nanny,),) = find_workers(stack, name).values()
        await asyncio.to_thread(stack.kill)
        os.kill(nanny, signal.SIGKILL)
        await asyncio.to_thread(stack.spawn)
        await asyncio.to_thread(stack.wait_ready)

        successor = f"{name}-worker-1"
        await eventually(lambda: running_workers(stack, name) == [successor], within=90)
        assert list(find_workers(stack, name)) == [successor]
        await session.stop_cluster(name)
    await eventually(lambda: not stack.jobs(), within=60)
