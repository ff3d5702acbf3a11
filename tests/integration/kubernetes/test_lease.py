"""Who leads, on a real API server: one at a time, whatever the clocks say."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import load_connection
from backends.kubernetes.api.lease import Lease, LeaseTimes, read_boottime
from gateway.aio.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Refuse

pytestmark = pytest.mark.integration

RULES = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "watch", "create", "patch"],
    }
]
TIMES = LeaseTimes(duration_s=6, renew_s=4, retry_s=0.2)
FOREVER = 3600.0


class Boottime:
    """The machine's clock, that a test can let jump as a suspended machine's does."""

    def __init__(self) -> None:
        self.jump = 0.0

    def __call__(self) -> float:
        return read_boottime() + self.jump


class ShiftedClock(SystemClock):
    """A wall clock that is wrong."""

    def __init__(self, hours: float) -> None:
        self.shift = timedelta(hours=hours)

    def now(self) -> datetime:
        return super().now() + self.shift


class Candidate:
    """One process that wants to lead, and how often it began to."""

    def __init__(self, client: KubeClient, name: str, clock=None) -> None:
        self.boottime = Boottime()
        self.lease = Lease(
            client,
            "leader",
            name,
            clock=clock or SystemClock(),
            times=TIMES,
            boottime=self.boottime,
        )
        self.begun = 0
        self.epochs: list[int] = []

    async def run(self) -> None:
        while True:
            await self.lease.lead(self._work)

    async def _work(self) -> None:
        self.begun += 1
        self.epochs.append(self.lease.epoch)
        await asyncio.sleep(FOREVER)


@pytest.fixture
async def connection(service_account):
    return await load_connection(str(service_account("leader", RULES).kubeconfig))


@pytest.fixture
async def client(connection) -> AsyncIterator[KubeClient]:
    made = KubeClient(connection)
    yield made
    await made.close()


async def test_the_first_leads_and_the_second_takes_over_what_is_released(
    client: KubeClient,
) -> None:
    first, second = Candidate(client, "first"), Candidate(client, "second")
    async with asyncio.TaskGroup() as tasks:
        leading = tasks.create_task(first.run())
        await eventually(lambda: first.begun)
        following = tasks.create_task(second.run())
        await eventually(lambda: second.lease._lease is not None)
        assert not second.lease.is_held

        leading.cancel()
        await first.lease.release()
        begun = read_boottime()
        await eventually(lambda: second.begun)
        taken_s = read_boottime() - begun
        following.cancel()

    assert not first.lease.is_held
    assert second.epochs == [1]
    # Watched, not waited for: the Lease itself would have lived for longer.
    assert taken_s < TIMES.duration_s


async def test_a_silent_leader_is_replaced_and_never_acts_again_on_its_own(
    client: KubeClient, connection, apiserver
) -> None:
    async with FaultProxy(apiserver) as proxy:
        lonely = KubeClient(connection, url=proxy.url)
        first, second = Candidate(lonely, "first"), Candidate(client, "second")
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(first.run())
            await eventually(lambda: first.begun)
            following = tasks.create_task(second.run())
            proxy.rule = lambda _: Refuse(503)
            proxy.cut()

            both = False
            while not second.begun:
                both = both or (first.lease.is_held and second.lease.is_held)
                await eventually(lambda: True)
                await asyncio.sleep(0.01)
            both = both or (first.lease.is_held and second.lease.is_held)
            proxy.rule = lambda _: None
            await eventually(lambda: not first.lease.is_held)
            leading.cancel()
            following.cancel()
        await lonely.close()

    assert not both
    assert second.epochs == [1]
    assert first.epochs == [0]


async def test_a_leader_that_slept_may_not_write_when_it_wakes(
    client: KubeClient,
) -> None:
    first = Candidate(client, "first")
    async with asyncio.TaskGroup() as tasks:
        leading = tasks.create_task(first.run())
        await eventually(lambda: first.begun)
        assert first.lease.is_held

        first.boottime.jump = 3600

        assert not first.lease.is_held
        leading.cancel()


async def test_wall_clocks_that_are_hours_apart_change_nothing(
    client: KubeClient,
) -> None:
    first = Candidate(client, "first", ShiftedClock(hours=-7))
    second = Candidate(client, "second", ShiftedClock(hours=7))
    async with asyncio.TaskGroup() as tasks:
        leading = tasks.create_task(first.run())
        await eventually(lambda: first.begun)
        following = tasks.create_task(second.run())
        begun = read_boottime()
        await eventually(lambda: read_boottime() - begun > TIMES.duration_s + 1)
        leading.cancel()
        following.cancel()

    assert first.begun == 1
    assert second.begun == 0


async def test_the_same_leader_goes_on_under_the_same_epoch_after_an_outage(
    connection, apiserver
) -> None:
    async with FaultProxy(apiserver) as proxy:
        through = KubeClient(connection, url=proxy.url)
        first = Candidate(through, "first")
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(first.run())
            await eventually(lambda: first.begun)
            proxy.rule = lambda _: Refuse(503)
            await eventually(lambda: not first.lease.is_held)
            proxy.rule = lambda _: None
            await eventually(lambda: first.lease.is_held)
            leading.cancel()
        await through.close()

    # Either it had not noticed, or it began anew: nobody else had led.
    assert set(first.epochs) == {0}
    assert first.lease.epoch == 0
