"""kill -9 of what the gateway started: supervisors, workers, schedulers."""

import os
import signal

import psutil
import pytest
from dask_gateway import GatewayCluster
from dask_gateway.client import ClusterStatus, GatewayClusterError

from tests.support.client_threads import start_client_threads
from tests.support.cluster_processes import find_schedulers, find_shim, find_workers
from tests.support.eventually import eventually
from tests.support.lives import (
    connected,
    events_of,
    open_session,
    running_workers,
    status_of,
)
from tests.support.stack import Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory):
    with running_stack(tmp_path_factory.mktemp("jobs")) as running:
        yield running


@pytest.fixture
async def cluster(stack: Stack):
    """Yield the name of a cluster with one worker; stop what is left of it."""
    async with open_session(stack) as session:
        name = await session.submit()
        await session.scale_cluster(name, 1)
        await eventually(lambda: running_workers(stack, name), within=120)
        yield name
        await session.stop_cluster(name)
        await eventually(lambda: not stack.jobs(), within=60)


async def test_jobs_go_on_without_their_supervisors_and_are_ended_all_the_same(
    stack, cluster
):
    worker = f"{cluster}-worker-0"
    before = find_schedulers(stack, cluster), find_workers(stack, cluster)
    for job in ("scheduler", worker):
        os.kill(find_shim(stack, cluster, job), signal.SIGKILL)

    async with connected(stack, cluster) as client, open_session(stack) as session:
        assert await client.submit(sum, range(10)) == 45
        # A supervisor's death makes nobody start the job a second time.
        await session.scale_cluster(cluster, 2)
        await client.wait_for_workers(2)
        after = find_schedulers(stack, cluster), find_workers(stack, cluster)
        assert after[0] == before[0]
        assert after[1][worker] == before[1][worker]
        assert sorted(after[1]) == [worker, f"{cluster}-worker-1"]
        await session.stop_cluster(cluster)

    await eventually(lambda: status_of(stack, cluster) == "STOPPED", within=60)
    assert stack.jobs() == []


async def test_a_worker_that_is_killed_is_replaced_by_one_of_another_name(
    stack, cluster
):
    ((nanny,),) = find_workers(stack, cluster).values()
    os.kill(nanny, signal.SIGKILL)

    successor = f"{cluster}-worker-1"
    await eventually(lambda: running_workers(stack, cluster) == [successor], within=90)
    assert list(find_workers(stack, cluster)) == [successor]
    assert "SIGKILL" in events_of(stack, cluster)["WorkerFailed"]
    async with connected(stack, cluster) as client:
        workers = (await client.scheduler.identity())["workers"].values()
        assert [w["name"] for w in workers] == [successor]
        assert await client.submit(sum, range(10)) == 45


async def test_what_a_nanny_starts_again_itself_is_the_same_worker(stack, cluster):
    ((nanny,),) = find_workers(stack, cluster).values()
    (process,) = [
        child
        for child in psutil.Process(nanny).children()
        if "spawn_main" in " ".join(child.cmdline())
    ]
    process.kill()

    async with connected(stack, cluster) as client:

        async def is_back() -> bool:
            workers = (await client.scheduler.identity())["workers"].values()
            return [w["name"] for w in workers] == [f"{cluster}-worker-0"]

        await eventually(lambda: not process.is_running())
        await eventually(is_back, within=60)
        assert await client.submit(sum, range(10)) == 45
    assert find_workers(stack, cluster) == {f"{cluster}-worker-0": [nanny]}


@pytest.mark.parametrize("with_supervisor", [False, True])
async def test_a_cluster_whose_scheduler_is_killed_fails_with_the_reason(
    stack, cluster, with_supervisor
):
    (scheduler,) = find_schedulers(stack, cluster)
    if with_supervisor:
        os.kill(find_shim(stack, cluster, "scheduler"), signal.SIGKILL)
    os.kill(scheduler, signal.SIGKILL)

    await eventually(lambda: status_of(stack, cluster) == "FAILED", within=60)
    assert stack.jobs() == []
    want = "supervising process was killed too" if with_supervisor else "SIGKILL"
    assert want in events_of(stack, cluster)["SchedulerEnded"]
    async with open_session(stack) as session:
        assert (await session.get_cluster(cluster)).status is ClusterStatus.FAILED
        with pytest.raises(GatewayClusterError, match=want):
            await session.connect(cluster)
        with pytest.raises(GatewayClusterError):
            async with GatewayCluster.from_name(
                cluster, address=stack.address, auth=session.auth, asynchronous=True
            ):
                pass


async def test_a_cluster_of_which_every_process_is_killed_at_once_fails(stack, cluster):
    for process in stack.jobs():
        process.kill()

    await eventually(lambda: status_of(stack, cluster) == "FAILED", within=60)
    assert "supervising process" in events_of(stack, cluster)["SchedulerEnded"]
    assert stack.jobs() == []
