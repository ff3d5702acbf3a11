"""The relay against real controller processes, with the chart's roles alone."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from backends.kubernetes.backend.relay import Relay, RelaySettings
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import DaskCluster
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import ClusterEvent, Worker, WorkerState
from gateway.domain.errors import Unavailable
from gateway.ports import LogQuery
from tests.harness.control_plane import ControlPlane
from tests.harness.node import Node
from tests.harness.service import answers
from tests.support.controllers import ControllerProcess, Site
from tests.support.eventually import eventually
from tests.support.kubelet import UNSCHEDULABLE, StandInKubelet
from tests.support.pod_fates import RUNS, Fate

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WITHIN = 90.0
# Lines for as long as the pod is there, one each tenth of a second.
TALKS = "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.1; done"
FAILS = "echo first; echo the reason; sleep 1; exit 3"


@pytest.fixture
def site(plane: ControlPlane, make_namespace, tmp_path) -> Iterator[Site]:
    made = Site(plane, make_namespace("gateway"), (make_namespace("team"),), tmp_path)
    yield made
    made.close()


@pytest.fixture
def real_site(clusters_node: Node, make_namespace, tmp_path) -> Iterator[Site]:
    plane = clusters_node.control_plane
    made = Site(plane, make_namespace("gateway"), (make_namespace("team"),), tmp_path)
    yield made
    made.close()


def know(site: Site, name: str) -> Callable[[str], DaskCluster | None]:
    """Return what finds the cluster as it is now, as the API server's cache does."""
    found = parse_dask_cluster(json.dumps(site.cluster(name)).encode())
    return {name: found}.get


@asynccontextmanager
async def relay(
    *controllers: ControllerProcess,
    find: Callable[[str], DaskCluster | None] = lambda _: None,
) -> AsyncIterator[Relay]:
    urls = tuple(f"http://127.0.0.1:{c.relay_port}" for c in controllers)
    token_file = str(controllers[0].folder / "relay-token")
    made = Relay(RelaySettings(urls, token_file), find, SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def start_two(site: Site) -> tuple[ControllerProcess, ControllerProcess]:
    """Start two replicas with one token, as the chart's Secret gives it."""
    first, second = site.start_controller(), site.start_controller()
    (second.folder / "relay-token").write_text(first.token)
    for replica in (first, second):
        await eventually(lambda r=replica: is_ready(r), within=WITHIN)
    return first, second


def is_ready(replica: ControllerProcess) -> bool:
    try:
        return answers(f"{replica.url}/readyz")
    except OSError:
        return False


async def told(asked: Relay, *reasons: str) -> dict[str, ClusterEvent]:
    async def check() -> dict[str, ClusterEvent]:
        found = {event.reason: event for event in await asked.list_events("c1")}
        assert set(reasons) <= set(found), found
        return found

    return await eventually(check, within=WITHIN, every=0.2)


@pytest.mark.usefixtures("kubelet")
async def test_any_replica_tells_what_happened_and_the_status_if_none_is_left(
    site: Site,
) -> None:
    first, second = await start_two(site)
    site.make_cluster("c1", scheduler={"command": ["nothing"]})

    def waits() -> bool:
        told = {c["reason"] for c in site.status("c1").get("conditions", ())}
        return "WaitingForSync" in told

    await eventually(waits, within=WITHIN)

    async with relay(first, second, find=know(site, "c1")) as asked:
        before = await told(asked, "Pending")
        for replica in (first, second):
            replica.kill()
            if replica is first:
                after = await told(asked, "Pending")
        left = await told(asked, "ControllerAway")

    assert before["Pending"].component == "cluster"
    assert after["Pending"] == before["Pending"]
    assert "cannot connect" in left["ControllerAway"].message
    # What the cluster waits for is still told.
    assert "WaitingForSync" in left


async def test_a2_32_each_worker_is_told_with_what_it_waits_for(
    site: Site, kubelet: StandInKubelet
) -> None:
    kubelet.decide = lambda pod: (
        Fate(hold=UNSCHEDULABLE)
        if pod["metadata"]["name"] in {"c1-worker-1", "c1-worker-2"}
        else RUNS
    )
    replica = site.start_controller()
    try:
        site.make_cluster("c1", replicas=4)
        await eventually(lambda: site.pods("c1"), within=WITHIN)
        site.sync("c1")

        async def tells() -> list[Worker]:
            found = await asked.list_workers("c1") or ()
            states = [worker.state for worker in found]
            assert states.count(WorkerState.RUNNING) == 2, found
            assert states.count(WorkerState.STARTING) == 2, found
            assert all("fits on no node" in found[n].message for n in (1, 2)), found
            return list(found)

        async with relay(replica) as asked:
            workers = await eventually(tells, within=WITHIN, every=0.2)
            replica.kill()
            away = await asked.list_workers("c1")
            nothing = await asked.list_workers("nothing")
    finally:
        kubelet.decide = lambda _: RUNS

    assert [worker.name for worker in workers] == [f"c1-worker-{n}" for n in range(4)]
    assert all(worker.start_ms > 0 for worker in workers)
    assert away is nothing is None


async def test_lines_of_real_pods_come_as_they_are_written(real_site: Site) -> None:
    site = real_site
    first, second = await start_two(site)
    site.make_cluster("c1", scheduler={"command": ["/bin/sh", "-c", TALKS]})

    async with relay(first, second) as asked:

        async def has_lines() -> list[str]:
            found = asked.read_logs("c1", LogQuery(tail=3))
            # Before there are any it says why.
            return [line async for line in found if line.startswith("line ")]

        last = await eventually(has_lines, within=WITHIN, every=0.2)
        query = LogQuery(tail=1, follow=True)
        async with aclosing(asked.read_logs("c1", query)) as lines:
            seen = [await anext(lines) for _ in range(5)]
            # The one that is asked first goes in the middle of it.
            first.kill()
            with pytest.raises(Unavailable, match="broke off"):
                await skip(lines)
        async with aclosing(asked.read_logs("c1", query)) as lines:
            again = [await anext(lines) for _ in range(3)]
        events = await told(asked, "Started", "Pending")

    numbers = [int(line.removeprefix("line ")) for line in (*last, *seen, *again)]
    assert len(last) <= 3
    assert numbers[-3:] == list(range(numbers[-3], numbers[-3] + 3))
    assert numbers[len(last) : len(last) + 5] == list(
        range(numbers[len(last)], numbers[len(last)] + 5)
    )
    assert events["Started"].component == "scheduler"


async def skip(lines: AsyncIterator[str]) -> None:
    async for _ in lines:
        pass


async def test_the_last_lines_of_what_ended_are_kept(real_site: Site) -> None:
    site = real_site
    controller = site.start_controller()
    site.make_cluster("c1", scheduler={"command": ["/bin/sh", "-c", FAILS]})

    def has_failed() -> dict[str, Any]:
        status = site.status("c1")
        assert status.get("phase") == "Failed", status
        return status

    await eventually(has_failed, within=WITHIN)
    await eventually(lambda: not site.pods("c1"), within=WITHIN)
    controller.kill()

    async with relay(controller, find=know(site, "c1")) as asked:
        query = LogQuery(tail=10)
        lines = [line async for line in asked.read_logs("c1", query)]
        events = await told(asked, "SchedulerEnded", "ControllerAway")

    assert list(itertools.islice(lines, 2)) == ["first", "the reason"]
    assert "3" in events["SchedulerEnded"].message
