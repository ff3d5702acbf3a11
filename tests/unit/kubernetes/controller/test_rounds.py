"""Rounds: who is looked at when, whatever a look ends with."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from backends.kubernetes.api.errors import Call, StaleWrite, Transient
from backends.kubernetes.controller.metrics import Metrics
from backends.kubernetes.controller.rounds import Rounds
from backends.kubernetes.controller.settings import Pace
from backends.kubernetes.controller.writes import LeadLost
from gateway.aio.clock import SystemClock
from gateway.aio.queue import KeyedQueue
from gateway.aio.tasks import Supervisor
from tests.support.eventually import eventually

CALL = Call("patch", "daskclusters", "home", "c1")
PACE = Pace(parallelism=3, base_delay_s=0.01, max_delay_s=0.05)


class Looks:
    """Ends each look as the test says, in turn, and then well."""

    def __init__(self, *ends: Exception | float) -> None:
        self.ends = list(ends)
        self.count = 0

    async def __call__(self, _: str) -> float | None:
        self.count += 1
        if not self.ends:
            return None
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


@asynccontextmanager
async def working(looks: Callable) -> AsyncIterator[tuple[KeyedQueue[str], Rounds]]:
    queue: KeyedQueue[str] = KeyedQueue()
    rounds = Rounds(queue, PACE, Metrics(), SystemClock())
    async with Supervisor() as tasks:
        tasks.start("rounds", lambda: rounds.run(looks))
        yield queue, rounds
    queue.close()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(StaleWrite(CALL, "modified"), id="stale"),
        pytest.param(Transient(CALL, "no answer"), id="transient"),
        pytest.param(LeadLost(), id="lead-lost-for-a-moment"),
        pytest.param(ValueError("a bug"), id="bug"),
        pytest.param(0.01, id="asked-for"),
    ],
)
async def test_a_cluster_is_looked_at_again_after(end: Exception | float) -> None:
    looks = Looks(end)
    async with working(looks) as (queue, _):
        queue.wake("c1")
        await eventually(lambda: looks.count == 2)


async def test_a_cluster_that_goes_in_circles_does_not_take_all_the_time() -> None:
    looks = Looks(*[0.0] * 10_000)
    async with working(looks) as (queue, _):
        queue.wake("c1")
        await eventually(lambda: looks.count >= 20)
        circling = looks.count

    assert circling == 20


async def test_one_cluster_that_hangs_leaves_the_others_alone_and_is_noticed() -> None:
    seen: list[str] = []
    hold = asyncio.Event()

    async def look(name: str) -> None:
        if name == "hangs":
            await hold.wait()
        seen.append(name)

    async with working(look) as (queue, rounds):
        queue.wake("hangs")
        queue.wake("c1")
        await eventually(lambda: seen == ["c1"])
        await eventually(lambda: rounds.longest_s > 0.05)
        hold.set()
        await eventually(lambda: seen == ["c1", "hangs"])
        assert rounds.longest_s == 0
