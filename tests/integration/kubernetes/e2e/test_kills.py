"""kill -9 of each process in the middle of work: the user is none the wiser.

One computation goes on over it, on one cluster, through one client; what is asked for
meanwhile comes to be, no pod is replaced, and no task is lost.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from dask_gateway import Gateway

from tests.harness.node import Node
from tests.support import strays
from tests.support.controllers import ControllerProcess
from tests.support.eventually import eventually
from tests.support.kube_stack import KubeStack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WITHIN = 150.0
TASKS = 24


class Work:
    """A cluster with workers, and a client that computes on it."""

    def __init__(self, cluster: Any, client: Any, stack: KubeStack) -> None:
        self.cluster = cluster
        self.client = client
        self.stack = stack

    @property
    def name(self) -> str:
        return str(self.cluster.name)

    def begin(self) -> list[Any]:
        """Start tasks that take some seconds."""

        def slow(number: int) -> tuple[int, str]:
            time.sleep(0.3)
            return number, os.environ["HOSTNAME"]

        return list(self.client.map(slow, range(TASKS), pure=False))

    async def gather(self, futures: list[Any]) -> None:
        """Expect all results."""
        got = await asyncio.wait_for(self.client.gather(futures), WITHIN)
        assert [number for number, _ in got] == list(range(TASKS))

    async def has_workers(self, number: int) -> None:
        """Wait until exactly so many run."""

        def check() -> bool:
            pods = self.stack.site.pods(self.name)
            found = {
                pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods
            }
            assert list(found.values()) == ["Running"] * (number + 1), found
            return True

        await eventually(check, within=WITHIN, every=0.3)

    def read_uids(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.stack.site.pods(self.name)
        }


@pytest.fixture
async def work(gateway: Gateway, stack: KubeStack) -> AsyncIterator[Work]:
    async with await gateway.new_cluster() as cluster:
        await cluster.scale(2)
        async with cluster.get_client(set_as_default=False) as client:
            await client.wait_for_workers(2)
            yield Work(cluster, client, stack)


async def test_the_work_goes_on_whoever_is_killed(
    work: Work, stack: KubeStack, node: Node
) -> None:
    kills: tuple[Callable[[], object], ...] = (
        stack.servers[0].restart,
        lambda: restart_all(stack),
        lambda: restart_leader(stack),
        node.kubelet.restart,
        node.control_plane.apiserver.restart,
    )
    wanted, uids = 2, work.read_uids()
    for kill in kills:
        futures = work.begin()
        await asyncio.to_thread(kill)
        await work.gather(futures)
        assert work.read_uids() == uids
        # Who was killed is back, and hears what is wanted.
        wanted = 5 - wanted
        await work.cluster.scale(wanted)
        await work.has_workers(wanted)
        uids = work.read_uids()


async def test_the_work_outlives_the_proxy(work: Work, stack: KubeStack) -> None:
    future = work.client.submit(pow, 6, 2)
    await work.client.publish_dataset(kept=future)
    uids = work.read_uids()

    await asyncio.to_thread(stack.restart_proxy)

    # Its connections are gone with it; whoever comes anew finds all as it was.
    async def find() -> int:
        async with work.cluster.get_client(set_as_default=False) as client:
            kept = await client.get_dataset("kept")
            return int(await kept)

    assert await eventually(lambda: attempt(find), within=WITHIN) == 36
    assert work.read_uids() == uids


async def test_a_cluster_comes_to_be_though_each_is_killed_meanwhile(
    gateway: Gateway, stack: KubeStack, node: Node
) -> None:
    kills: tuple[Callable[[], object], ...] = (
        *(server.restart for server in stack.servers),
        lambda: restart_leader(stack),
        node.control_plane.apiserver.restart,
    )
    name = await gateway.submit()
    async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as tasks:
        # What `new_cluster` does, too: its call is held until the cluster runs.
        connected = tasks.create_task(connect_to(gateway, name))
        for kill in kills:
            await asyncio.to_thread(kill)

    async with connected.result() as cluster:
        await cluster.scale(1)
        async with cluster.get_client(set_as_default=False) as client:
            assert await client.submit(pow, 3, 2) == 9
        await cluster.shutdown()


async def test_a_cluster_comes_to_be_though_the_proxy_is_killed_meanwhile(
    gateway: Gateway, stack: KubeStack
) -> None:
    # A client that waits for it would give up: its connection is cut.
    name = await gateway.submit()

    await asyncio.to_thread(stack.restart_proxy)

    async with await gateway.connect(name):
        await gateway.stop_cluster(name)


async def connect_to(gateway: Gateway, name: str) -> Any:
    return await gateway.connect(name)


async def attempt(find: Callable[[], Any]) -> Any:
    """Return what ``find`` does; None while its connections fail."""
    try:
        return await asyncio.wait_for(find(), 60)
    except (OSError, TimeoutError):
        return None


def restart_all(stack: KubeStack) -> None:
    """Kill all API servers at once, and start them again."""
    for server in stack.servers:
        server.kill()
    for server in stack.servers:
        server.launch()
    for server in stack.servers:
        server.wait_ready()


def restart_leader(stack: KubeStack) -> None:
    """Kill the controller that leads; it comes back as a follower."""
    leader = next(c for c in stack.controllers if is_leading(c))
    leader.kill()
    leader.start()
    assert leader.process is not None
    strays.spare(leader.process.pid)


def is_leading(controller: ControllerProcess) -> bool:
    return "daskfleet_leading 1.0" in controller.ask("/metrics")
