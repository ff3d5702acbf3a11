"""The unmodified client from PyPI, real Traefik, real schedulers and workers."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dask_gateway import BasicAuth, Gateway, GatewayCluster
from dask_gateway.client import ClusterStatus, GatewayWarning

from tests.support.eventually import eventually
from tests.support.stack import PASSWORD, Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


async def test_a_cluster_is_created_scaled_computed_on_and_stopped(gateway, stack):
    cluster = await gateway.new_cluster()
    await cluster.scale(2)
    async with cluster.get_client(set_as_default=False) as client:
        await client.wait_for_workers(2)
        got = await client.submit(sum, range(100))
        names = {
            w["name"] for w in (await client.scheduler.identity())["workers"].values()
        }
    await cluster.shutdown()

    assert got == 4950
    assert names == {f"{cluster.name}-worker-{n}" for n in (0, 1)}
    await eventually(lambda: not stack.jobs(), within=60)
    await eventually(lambda: _status(stack, cluster.name) == "STOPPED")
    report = await gateway.get_cluster(cluster.name)
    assert report.stop_time is not None


async def test_scaling_down_and_up_ends_at_the_exact_numbers(gateway, stack):
    async with (
        await gateway.new_cluster() as cluster,
        cluster.get_client(set_as_default=False) as client,
    ):
        for wanted in (3, 1, 2, 0):
            await cluster.scale(wanted)
            await eventually(
                lambda n=wanted: _workers(stack, cluster.name, "Running", n),
                within=90,
            )
        assert (await client.scheduler.identity())["workers"] == {}


async def test_adapt_follows_the_work_and_returns_to_the_minimum(gateway, stack):
    # Workers have no `tests`: a nested function travels by value.
    def slow(number: int) -> int:
        time.sleep(0.3)
        return number

    async with await gateway.new_cluster() as cluster:
        await cluster.adapt(minimum=0, maximum=2)
        async with cluster.get_client(set_as_default=False) as client:
            futures = client.map(slow, range(30))
            assert sum(await client.gather(futures)) == sum(range(30))
            del futures
            await eventually(
                lambda: _workers(stack, cluster.name, "Running", 0), within=90
            )


async def test_adapt_without_bounds_is_capped_and_says_so(gateway):
    async with await gateway.new_cluster() as cluster:
        with pytest.warns(GatewayWarning, match="Using `maximum=8, minimum=0` instead"):
            await cluster.adapt(maximum=800)


async def test_scale_beyond_the_limit_warns_and_is_clamped(gateway, stack):
    async with await gateway.new_cluster() as cluster:
        with pytest.warns(GatewayWarning, match="Scaling to 8 instead"):
            await gateway.scale_cluster(cluster.name, 9000)
        await gateway.scale_cluster(cluster.name, 0)
        await eventually(lambda: _workers(stack, cluster.name, "Starting", 0))


async def test_scale_is_accepted_before_the_cluster_runs(gateway, stack):
    name = await gateway.submit()
    await gateway.scale_cluster(name, 1)

    async with await gateway.connect(name) as cluster:
        await eventually(lambda: _workers(stack, name, "Running", 1), within=90)
        await gateway.stop_cluster(cluster.name)


async def test_options_are_offered_checked_and_reach_the_workers(gateway):
    options = await gateway.cluster_options()
    assert options.worker_cores == 1
    options.worker_cores = 2
    options.mark = "seen"

    async with await gateway.new_cluster(options) as cluster:
        await cluster.scale(1)
        async with cluster.get_client(set_as_default=False) as client:
            assert await client.submit(os.getenv, "MY_MARK") == "seen"
            workers = (await client.scheduler.identity())["workers"].values()
            assert [w["nthreads"] for w in workers] == [2]
        report = await gateway.get_cluster(cluster.name)
    want = {"worker_cores": 2, "mark": "seen", "flavour": "plain"}
    assert dict(report.options) == want


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({"worker_cores": 9}, "worker_cores must be <= 4", id="bound"),
        pytest.param({"nothing": 1}, "Unknown fields", id="unknown"),
        pytest.param({"flavour": "x"}, "not a valid option", id="choice"),
        pytest.param(
            {"flavour": "broken"}, "not for alice\nask an admin", id="handler"
        ),
    ],
)
async def test_refused_options_are_a_value_error_with_the_reason(
    gateway, options, want
):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is asserted
        await gateway.submit(**options)

    assert want in str(refused.value)
    assert await gateway.list_clusters() == []


async def test_a_second_client_connects_by_name_and_leaves_it_running(gateway):
    async with await gateway.new_cluster(shutdown_on_close=False) as first:
        name = first.name
    second = await gateway.connect(name)
    async with second.get_client(set_as_default=False) as client:
        assert (await client.scheduler.identity())["id"]
    await second.close()

    assert (await gateway.get_cluster(name)).status is ClusterStatus.RUNNING


async def test_shutdown_on_close_stops_it(gateway, stack):
    async with await gateway.new_cluster(shutdown_on_close=True) as cluster:
        name = cluster.name

    await eventually(lambda: _status(stack, name) == "STOPPED", within=60)


async def test_lists_show_active_clusters_and_others_by_status(gateway):
    name = await gateway.submit()
    await gateway.stop_cluster(name)
    active = [r.name for r in await gateway.list_clusters()]

    async def stopped() -> bool:
        found = await gateway.list_clusters(status=["stopped", "failed"])
        return name in [r.name for r in found]

    assert name not in active
    await eventually(stopped, within=60)


async def test_another_user_neither_sees_nor_stops_it(gateway, stack):
    async with await gateway.new_cluster() as cluster:
        async with Gateway(
            stack.address, auth=BasicAuth("mallory", PASSWORD), asynchronous=True
        ) as other:
            assert await other.list_clusters() == []
            with pytest.raises(ValueError, match="not found"):
                await other.get_cluster(cluster.name)
            with pytest.raises(ValueError, match="not found"):
                await other.scale_cluster(cluster.name, 1)
            await other.stop_cluster(cluster.name)
        status = (await gateway.get_cluster(cluster.name)).status

    assert status is ClusterStatus.RUNNING


async def test_stop_by_another_process_is_seen_by_the_first(gateway, stack):
    async with await gateway.new_cluster() as cluster:
        code = (
            "from dask_gateway import Gateway, BasicAuth\n"
            f"g = Gateway({stack.address!r}, auth=BasicAuth('alice', {PASSWORD!r}))\n"
            f"g.stop_cluster({cluster.name!r})\n"
        )
        await _python(code)
        await eventually(lambda: _status(stack, cluster.name) == "STOPPED", within=60)


async def test_five_clusters_at_once_all_compute(gateway):
    await _many_clusters(gateway, 5)


@pytest.mark.nightly
async def test_ten_clusters_at_once_all_compute(gateway):
    await _many_clusters(gateway, 10)


async def test_data_stays_whole_while_workers_retire(gateway, stack):
    def numbered(number: int) -> tuple[int, int, float]:
        return number, os.getpid(), time.time()

    async with await gateway.new_cluster() as cluster:
        await cluster.scale(3)
        async with cluster.get_client(set_as_default=False) as client:
            await client.wait_for_workers(3)
            futures = client.map(numbered, range(60), pure=False)
            first = await client.gather(futures)
            await cluster.scale(1)
            await eventually(
                lambda: _workers(stack, cluster.name, "Running", 1), within=90
            )
            got = await client.gather(futures)

    # Pid and moment are the first run's: nothing was computed again.
    assert got == first


async def test_the_synchronous_client_works_from_a_script(stack):
    code = (
        "from dask_gateway import Gateway, BasicAuth\n"
        f"g = Gateway({stack.address!r}, auth=BasicAuth('sync', {PASSWORD!r}))\n"
        "with g.new_cluster() as cluster:\n"
        "    cluster.scale(1)\n"
        "    client = cluster.get_client()\n"
        "    print('GOT', client.submit(lambda: 6 * 7).result(timeout=120))\n"
        "    client.close()\n"
    )
    assert "GOT 42" in await _python(code)


async def test_gateway_cluster_alone_creates_and_stops_it(stack):
    async with GatewayCluster(
        address=stack.address,
        auth=BasicAuth("solo", PASSWORD),
        asynchronous=True,
    ) as cluster:
        name = cluster.name

    await eventually(lambda: _status(stack, name, user="solo") == "STOPPED", within=60)


async def test_a_wrong_password_is_refused(stack):
    async with Gateway(
        stack.address, auth=BasicAuth("alice", "wrong"), asynchronous=True
    ) as gateway:
        with pytest.raises(Exception, match="401"):
            await gateway.list_clusters()


async def _many_clusters(gateway: Gateway, number: int) -> None:
    async def one(index: int) -> int:
        async with await gateway.new_cluster() as cluster:
            await cluster.scale(1)
            async with cluster.get_client(set_as_default=False) as client:
                return await client.submit(pow, index, 2)

    got = await asyncio.gather(*(one(n) for n in range(number)))
    assert got == [n**2 for n in range(number)]


def _workers(stack: Stack, name: str, state: str, want: int) -> bool:
    found = stack.get(f"/api/v1/clusters/{name}/workers")
    assert isinstance(found, dict)
    return sum(w["status"] == state for w in found["workers"]) == want


def _status(stack: Stack, name: str, user: str = "alice") -> str:
    found = stack.get(f"/api/v1/clusters/{name}", user=user)
    assert isinstance(found, dict)
    return str(found["status"])


async def _python(code: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=Path(__file__).parents[3],
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, output.decode()
    return output.decode()
