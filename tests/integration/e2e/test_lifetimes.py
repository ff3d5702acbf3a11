"""When a cluster ends by itself, and when it must not: rows of users.md by number.

A scheduler reports when something changes, when an end may be due, and else within
45 s. So an end comes about a second after the time-out says.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dask_gateway import Gateway
from distributed import Client

from gateway.config.cluster import ClusterConfig
from tests.support.cluster_processes import find_schedulers, find_workers
from tests.support.eventually import eventually
from tests.support.lives import (
    connected,
    events_of,
    look_up,
    open_session,
    status_of,
)
from tests.support.stack import PASSWORD, Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

# A loaded machine.
AT_LAST = 120
# Held calls end 35 to 45 s after they began: sooner than that it was the gateway that
# ended one in time.
IN_TIME_S = 25

OPTIONS = """
from dask_gateway_server.auth import SimpleAuthenticator, User
from dask_gateway_server.options import Float, Options

class WithAdmin(SimpleAuthenticator):
    async def authenticate(self, request):
        user = await super().authenticate(request)
        return User(user.name, admin=user.name == "root")

c.Backend.cluster_options = Options(
    Float("idle_timeout", default=0),
    Float("no_client_timeout", default=0),
    Float("max_lifetime", default=0),
)
c.DaskGateway.authenticator_class = WithAdmin
"""

# A client of its own process: one cluster with one worker, until it is killed.
HOLDER = """
import sys, time
from dask_gateway import BasicAuth, Gateway
gateway = Gateway(sys.argv[1], auth=BasicAuth("alice", sys.argv[2]))
cluster = gateway.new_cluster(no_client_timeout=float(sys.argv[3]))
cluster.scale(1)
client = cluster.get_client()
client.wait_for_workers(1)
print(cluster.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory):
    with running_stack(tmp_path_factory.mktemp("lives"), OPTIONS) as running:
        yield running


@pytest.fixture
async def session(stack: Stack) -> AsyncIterator[Gateway]:
    async with open_session(stack) as opened:
        yield opened
        for report in await opened.list_clusters():
            await opened.stop_cluster(report.name)
    await eventually(lambda: not stack.jobs(), within=60)


@asynccontextmanager
async def killable_client(stack: Stack, timeout_s: float):
    """Yield the name of another process's cluster; the process is killed -9."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, stack.address, PASSWORD, str(timeout_s)),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 120)
        yield line.decode().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def computing(session: Gateway, stack: Stack, **options: float):
    """Yield a cluster's name and a client of it, which has just computed.

    It waits for the worker with a task, since starting one may take longer than
    the tests' time-outs.
    """
    name = await session.submit(**options)
    async with connected(stack, name) as client:
        future = client.submit(sum, range(10))
        await session.scale_cluster(name, 1)
        assert await future == 45
        yield name, client


async def has_stopped(stack: Stack, name: str) -> None:
    await eventually(lambda: status_of(stack, name) == "STOPPED", within=AT_LAST)
    assert find_schedulers(stack, name) == []
    assert find_workers(stack, name) == {}


async def hold(seconds: float, then: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again, about each second, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await then()
        pause = time.monotonic() + 1
        await eventually(lambda until=pause: time.monotonic() > until)


async def test_row_38_idle_is_decided_anew_after_each_piece_of_work(session, stack):
    async with computing(session, stack, idle_timeout=8) as (name, client):
        for gap in (0.5, 3, 1, 4, 2):
            assert await client.submit(sum, range(10), pure=False) == 45
            pause = time.monotonic() + gap
            await eventually(lambda until=pause: time.monotonic() > until)
        assert status_of(stack, name) == "RUNNING"

        # A client that only looks on does not keep it.
        begin = time.monotonic()
        await has_stopped(stack, name)
        assert time.monotonic() - begin < IN_TIME_S

    assert events_of(stack, name)["IdleTimeout"] == "idle for 8 s (idle_timeout)"


async def test_row_39_a_cluster_whose_tasks_wait_is_not_idle(session, stack):
    """No worker can run it; results that are held and no tasks do not count."""
    async with computing(session, stack, idle_timeout=6) as (name, client):
        waiting = client.submit(len, "x", resources={"GPU": 1}, pure=False)
        held = await client.scatter(list(range(10)))

        async def tell() -> None:
            # A client that comes and goes makes the scheduler report.
            async with connected(stack, name):
                assert waiting.status == "pending"

        await hold(20, tell)
        assert status_of(stack, name) == "RUNNING"

        await waiting.cancel()
        await has_stopped(stack, name)
        del held

    assert "IdleTimeout" in events_of(stack, name)


async def test_rows_16_and_36_a_cluster_whose_client_was_killed_goes(stack):
    async with killable_client(stack, 6) as name:
        # As long as it lives, nothing happens, whatever else comes and goes.
        await hold(12, lambda: _visit(stack, name))
        assert status_of(stack, name) == "RUNNING"

    await has_stopped(stack, name)
    assert "no client for 6 s" in events_of(stack, name)["NoClientTimeout"]


async def test_row_36_not_while_a_second_client_is_attached(stack):
    async with killable_client(stack, 5) as name:
        second = connected(stack, name)
        client = await second.__aenter__()
    try:
        await hold(20, lambda: _work(client))
        assert status_of(stack, name) == "RUNNING"
    finally:
        await second.__aexit__(None, None, None)

    await has_stopped(stack, name)
    assert "NoClientTimeout" in events_of(stack, name)


async def test_row_36_nor_when_the_client_comes_back_in_time(session, stack):
    """Its connection is cut with the proxy's process; a new one follows."""
    async with computing(session, stack, no_client_timeout=30) as (name, _):
        await asyncio.to_thread(stack.kill_proxy)
    await asyncio.to_thread(stack.wait_ready)

    async with connected(stack, name) as client:
        await hold(40, lambda: _work(client))

    assert status_of(stack, name) == "RUNNING"


async def test_row_40_a_lifetime_ends_a_busy_cluster(session, stack):
    def work_on() -> None:
        time.sleep(300)

    async with computing(session, stack, max_lifetime=40) as (name, client):
        future = client.submit(work_on)
        await client.publish_dataset(busy=future)

    await has_stopped(stack, name)
    record = look_up(stack, name)
    assert 40_000 <= record["stop_time"] - record["start_time"] <= 75_000
    told = events_of(stack, name)
    assert told["MaxLifetime"] == "ran for 40 s (max_lifetime)"
    assert "40 s after it was made (max_lifetime)" in told["MaxLifetimeNear"]


async def test_row_20_a_gateway_that_was_away_kills_no_busy_cluster(tmp_path):
    """Away for three times each time-out while a client computes."""

    # Workers have no `tests`: a nested function travels by value.
    def sleep_and_say() -> str:
        time.sleep(26)
        return "done"

    limits = {"idle_timeout": 6, "no_client_timeout": 6}
    with running_stack(tmp_path, OPTIONS) as stack:
        async with (
            open_session(stack) as session,
            computing(session, stack, **limits) as (name, client),
        ):
            before = find_schedulers(stack, name), find_workers(stack, name)
            future = client.submit(sleep_and_say)
            await asyncio.to_thread(stack.kill)
            away = time.monotonic() + 18
            await eventually(lambda: time.monotonic() > away)
            await asyncio.to_thread(stack.spawn)
            await asyncio.to_thread(stack.wait_ready)
            # The report of before is all that the next gateway has at first.
            assert await client.gather(future) == "done"
            assert status_of(stack, name) == "RUNNING"
            after = find_schedulers(stack, name), find_workers(stack, name)
            assert after == before
            await _work(client)
        await has_stopped(stack, name)


async def test_row_34_who_stopped_it_is_told(session, stack):
    own, others = await session.submit(), await session.submit()
    await session.stop_cluster(own)
    async with open_session(stack, "root") as admin:
        await admin.stop_cluster(others)

    await has_stopped(stack, own)
    await has_stopped(stack, others)
    assert events_of(stack, own)["StoppedByUser"] == "stopped by its user"
    assert events_of(stack, others)["StoppedByAdmin"] == "stopped by admin root"


def test_row_41_without_any_setting_idle_clusters_and_orphans_go():
    config = ClusterConfig().resolve()

    assert (config.idle_timeout_s, config.no_client_timeout_s) == (1800, 1800)
    assert config.max_lifetime_s == 0


async def _visit(stack: Stack, name: str) -> None:
    async with connected(stack, name) as client:
        assert await client.submit(sum, range(10), pure=False) == 45


async def _work(client: Client) -> None:
    assert await client.submit(sum, range(10), pure=False) == 45
