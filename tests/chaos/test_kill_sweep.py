"""One cluster's whole life, with a kill -9 at one step of it.

The steps are those of the gateway's plans, as its log tells them: a change that
was written, a job that was started, asked to end, or found ended. Step 0 is the
answer to the request itself, the last one is the quiet after all of them.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.client_threads import start_client_threads
from tests.support.cluster_processes import Steps, find_schedulers, find_workers
from tests.support.eventually import eventually
from tests.support.lives import connected, open_session, running_workers, status_of
from tests.support.stack import Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

VICTIMS = ("gateway", "proxy", "both")
# How many steps each phase takes when nobody disturbs it, and one for the quiet.
PHASES = {"create": 5, "grow": 4, "shrink": 4, "stop": 8}
SAMPLE = [
    ("create", 1, "gateway"),
    ("create", 3, "both"),
    ("grow", 2, "gateway"),
    ("shrink", 2, "both"),
    ("stop", 2, "proxy"),
    ("stop", 5, "gateway"),
]
ALL = [
    (phase, step, victim)
    for phase, steps in PHASES.items()
    for step in range(steps + 1)
    for victim in VICTIMS
]
CASES = [
    pytest.param(
        *case,
        id="-".join(map(str, case)),
        marks=() if case in SAMPLE else pytest.mark.nightly,
    )
    for case in ALL
]


@pytest.fixture(scope="module", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture
def stack(tmp_path: Path):
    with running_stack(tmp_path, "\nc.DaskGateway.log_level = 'DEBUG'\n") as running:
        yield running


def test_the_sample_is_part_of_all_cases():
    assert set(SAMPLE) <= set(ALL)


@pytest.mark.parametrize(("phase", "step", "victim"), CASES)
async def test_a_life_goes_on_as_accepted_whenever_something_is_killed(
    stack, tmp_path, phase, step, victim
):
    life = Life(stack, tmp_path / "ran.txt", (phase, step), victim)

    await life.create()
    await life.grow()
    await life.shrink()
    await life.stop()


class Life:
    """A cluster, and the kill that is meant for it."""

    def __init__(
        self, stack: Stack, ran: Path, at: tuple[str, int], victim: str
    ) -> None:
        self.stack = stack
        self.ran = ran
        self.at = at
        self.victim = victim
        self.name = ""

    async def create(self) -> None:
        async def submit() -> None:
            async with open_session(self.stack) as session:
                self.name = await session.submit()

        await self.disturb("create", submit, lambda: self.has("RUNNING"))
        self.check(workers=())

    async def grow(self) -> None:
        """Compute on one worker, and have a second one made meanwhile."""
        await self.scale(1)
        await eventually(lambda: self.counts(1), within=120)
        await self.begin_work()
        before = find_workers(self.stack, self.name)

        await self.disturb("grow", lambda: self.scale(2), lambda: self.counts(2))

        self.check(workers=(0, 1))
        assert before.items() <= find_workers(self.stack, self.name).items()

    async def shrink(self) -> None:
        """Let the idle worker go; the busy one stays, and its work is done once."""
        busy = find_workers(self.stack, self.name)[f"{self.name}-worker-0"]

        await self.disturb("shrink", lambda: self.scale(1), lambda: self.counts(1))

        self.check(workers=(0,))
        assert find_workers(self.stack, self.name) == {f"{self.name}-worker-0": busy}
        pid = await self.finish_work()
        assert self.ran.read_text().split() == [str(pid)], "computed twice"

    async def stop(self) -> None:
        await self.scale(2)
        await eventually(lambda: self.counts(2), within=120)

        async def ask() -> None:
            async with open_session(self.stack) as session:
                await session.stop_cluster(self.name)

        await self.disturb("stop", ask, lambda: self.has("STOPPED"))

        assert self.stack.jobs() == []

    async def disturb(
        self,
        phase: str,
        ask: Callable[[], Awaitable[None]],
        is_done: Callable[[], bool],
    ) -> None:
        """Ask for something, kill at the step if it is this phase's, and wait."""
        steps = Steps(self.stack)
        await ask()
        if self.at[0] == phase:
            reached = partial(steps.has_reached, self.name, self.at[1])
            await eventually(reached, within=120, every=0.005)
            await self.kill()
        await eventually(is_done, within=120)

    async def kill(self) -> None:
        """Kill; the gateway is started again as its service manager would."""
        stack = self.stack
        if self.victim in {"gateway", "both"}:
            await asyncio.to_thread(stack.kill)
        if self.victim in {"proxy", "both"}:
            await asyncio.to_thread(stack.kill_proxy)
        if self.victim in {"gateway", "both"}:
            await asyncio.to_thread(stack.spawn)
        await asyncio.to_thread(stack.wait_ready)

    def check(self, *, workers: tuple[int, ...]) -> None:
        """Compare what runs with what was accepted, by job."""
        assert len(find_schedulers(self.stack, self.name)) == 1
        found = find_workers(self.stack, self.name)
        assert sorted(found) == [f"{self.name}-worker-{n}" for n in workers]
        assert all(len(pids) == 1 for pids in found.values()), found

    async def begin_work(self) -> None:
        """Leave a task behind that outlives any client, and says when it runs."""

        # Workers have no `tests`: a nested function travels by value.
        def tell_and_wait(path: str, seconds: float) -> int:
            with open(path, "a") as ran:  # noqa: PTH123 - on the worker
                ran.write(f"{os.getpid()}\n")
            time.sleep(seconds)
            return os.getpid()

        async with connected(self.stack, self.name) as client:
            future = client.submit(tell_and_wait, str(self.ran), 10)
            await client.publish_dataset(kept=future)
            await eventually(self.ran.exists)

    async def finish_work(self) -> int:
        async with connected(self.stack, self.name) as client:
            return await client.gather(await client.get_dataset("kept"))

    async def scale(self, count: int) -> None:
        async with open_session(self.stack) as session:
            await session.scale_cluster(self.name, count)

    def counts(self, wanted: int) -> bool:
        """Return whether so many workers run, by the API and on the machine."""
        running = running_workers(self.stack, self.name)
        on_machine = find_workers(self.stack, self.name)
        return len(running) == wanted and sorted(running) == sorted(on_machine)

    def has(self, status: str) -> bool:
        return status_of(self.stack, self.name) == status
