"""What the database backend relies on, over every launcher.

The launcher in memory stands in for a platform in tests of the planner; here it
is held to what the real one does.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from backends.database.launcher import (
    JobRef,
    JobSpec,
    JobState,
    Launcher,
    Role,
    StartFailed,
)
from tests.support.eventually import eventually
from tests.support.fake_launcher import FakeLauncher, Platform
from tests.support.jobs import (
    SCHEDULER,
    WORKER,
    a_job,
    end,
    find_marked,
    make_launcher,
    python,
    view,
    wait_until_ended,
)

OTHER = JobRef("c2", Role.SCHEDULER, "scheduler")


class World(Protocol):
    """One platform, with any number of launchers on it."""

    def make(self) -> Launcher:
        """Return a launcher, as another process of ours would have it."""
        ...

    def lasting(self, ref: JobRef) -> JobSpec:
        """Return a job that runs until it is stopped."""
        ...

    async def run_to_end(
        self, launcher: Launcher, ref: JobRef, code: int, lines: Sequence[str]
    ) -> JobSpec:
        """Start a job that prints ``lines``, and see it end by itself."""
        ...

    def impossible(self, launcher: Launcher, ref: JobRef) -> JobSpec:
        """Return a job that can never be started."""
        ...


@dataclass
class ProcessWorld:
    directory: Path

    def make(self) -> Launcher:
        return make_launcher(self.directory)

    def lasting(self, ref: JobRef) -> JobSpec:
        return a_job(*python("import time; time.sleep(600)"), ref=ref)

    async def run_to_end(
        self, launcher: Launcher, ref: JobRef, code: int, lines: Sequence[str]
    ) -> JobSpec:
        text = f"for line in {list(lines)!r}: print(line)\nraise SystemExit({code})"
        job = a_job(*python(text), ref=ref)
        await launcher.start(job)
        await wait_until_ended(launcher, ref)
        return job

    def impossible(self, launcher: Launcher, ref: JobRef) -> JobSpec:
        del launcher
        return a_job("no-such-command", ref=ref)


@dataclass
class FakeWorld:
    platform: Platform = field(default_factory=lambda: Platform(lambda: 1))

    def make(self) -> Launcher:
        return FakeLauncher(self.platform)

    def lasting(self, ref: JobRef) -> JobSpec:
        return a_job(ref=ref)

    async def run_to_end(
        self, launcher: Launcher, ref: JobRef, code: int, lines: Sequence[str]
    ) -> JobSpec:
        job = a_job(ref=ref)
        await launcher.start(job)
        self.platform.end(ref, code, *lines)
        return job

    def impossible(self, launcher: Launcher, ref: JobRef) -> JobSpec:
        assert isinstance(launcher, FakeLauncher)
        launcher.refuse[ref.role] = "no such command"
        return a_job(ref=ref)


@pytest.fixture(params=["process", "fake"])
def world(request, tmp_path) -> World:
    return ProcessWorld(tmp_path) if request.param == "process" else FakeWorld()


@pytest.fixture
async def launcher(world, tmp_path) -> AsyncIterator[Launcher]:
    launcher = world.make()
    await launcher.setup()
    yield launcher
    await end(launcher, *await launcher.find_jobs())
    await launcher.cleanup()
    assert find_marked(tmp_path) == []


async def test_a_job_that_nobody_started_is_absent(launcher):
    views = await launcher.observe([SCHEDULER, WORKER])

    assert {ref: seen.state for ref, seen in views.items()} == {
        SCHEDULER: JobState.ABSENT,
        WORKER: JobState.ABSENT,
    }


async def test_a_started_job_runs_and_is_found(world, launcher):
    await launcher.start(world.lasting(SCHEDULER))

    seen = await view(launcher)
    assert seen.state is JobState.RUNNING
    assert seen.exit_code is None
    assert seen.started_ms is not None
    assert seen.host == "127.0.0.1"
    assert list(await launcher.find_jobs()) == [SCHEDULER]


async def test_many_jobs_are_seen_in_one_look(world, launcher):
    await launcher.start(world.lasting(SCHEDULER))
    await launcher.start(world.lasting(OTHER))

    views = await launcher.observe([OTHER, WORKER, SCHEDULER])

    assert views[OTHER].state is views[SCHEDULER].state is JobState.RUNNING
    assert views[WORKER].state is JobState.ABSENT
    assert set(await launcher.find_jobs()) == {SCHEDULER, OTHER}
    assert await launcher.observe([]) == {}


async def test_starting_again_changes_nothing(world, launcher):
    await launcher.start(world.lasting(SCHEDULER))
    first = await view(launcher)

    await asyncio.gather(*(launcher.start(world.lasting(SCHEDULER)) for _ in range(3)))

    assert await view(launcher) == first


async def test_another_process_of_ours_goes_on_with_the_job(world, launcher):
    await launcher.start(world.lasting(SCHEDULER))
    successor = world.make()
    await successor.setup()

    assert await view(successor) == await view(launcher)
    await successor.start(world.lasting(SCHEDULER))
    await end(successor, SCHEDULER)

    assert (await view(launcher)).state is JobState.ENDED
    await successor.cleanup()


async def test_cleaning_up_leaves_jobs_running(world, launcher):
    short = world.make()
    await short.setup()
    await short.start(world.lasting(SCHEDULER))

    await short.cleanup()

    assert (await view(launcher)).state is JobState.RUNNING


async def test_a_stopped_job_has_ended_for_good(world, launcher):
    await launcher.start(world.lasting(SCHEDULER))

    await end(launcher, SCHEDULER)

    ended = await view(launcher)
    assert ended.state is JobState.ENDED
    assert ended.exit_code in {-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL, 1}
    assert await launcher.stop(SCHEDULER)
    await launcher.start(world.lasting(SCHEDULER))
    assert await view(launcher) == ended


async def test_a_job_that_was_stopped_before_it_was_started_never_runs(world, launcher):
    assert await eventually(lambda: launcher.stop(SCHEDULER))

    await launcher.start(world.lasting(SCHEDULER))

    assert (await view(launcher)).state is not JobState.RUNNING


async def test_an_end_keeps_its_status_and_last_lines(world, launcher):
    lines = [f"line {i}" for i in range(30)]

    job = await world.run_to_end(launcher, SCHEDULER, 3, lines)

    ended = await view(launcher)
    assert (ended.state, ended.exit_code) == (JobState.ENDED, 3)
    assert ended.log_tail == tuple(lines[-20:])
    await launcher.start(job)
    assert await view(launcher) == ended


@pytest.mark.parametrize("tail", [0, 2, 99])
async def test_a_log_is_read_back_oldest_first(world, launcher, tail):
    lines = ["one", "two", "three"]
    await world.run_to_end(launcher, WORKER, 0, lines)

    read = [one async for one in launcher.read_logs(WORKER, tail=tail, follow=False)]

    assert read == (lines[-tail:] if tail else [])


async def test_following_the_log_of_an_ended_job_ends(world, launcher):
    await world.run_to_end(launcher, WORKER, 0, ["one"])

    read = [one async for one in launcher.read_logs(WORKER, tail=9, follow=True)]

    assert read == ["one"]


async def test_what_can_never_start_is_refused_each_time_and_says_why(world, launcher):
    job = world.impossible(launcher, SCHEDULER)

    for _ in range(2):
        with pytest.raises(StartFailed, match=r"no.such.command"):
            await launcher.start(job)

    assert (await view(launcher)).state is not JobState.RUNNING
    assert await eventually(lambda: launcher.stop(SCHEDULER))


async def test_a_forgotten_cluster_leaves_no_trace_and_others_stay(world, launcher):
    await world.run_to_end(launcher, SCHEDULER, 0, ["one"])
    await world.run_to_end(launcher, WORKER, 0, ["one"])
    await launcher.start(world.lasting(OTHER))
    await end(launcher, SCHEDULER, WORKER)

    await launcher.forget("c1")
    await launcher.forget("c1")

    assert list(await launcher.find_jobs()) == [OTHER]
    views = await launcher.observe([SCHEDULER, WORKER, OTHER])
    assert views[SCHEDULER].state is views[WORKER].state is JobState.ABSENT
    assert views[OTHER].state is JobState.RUNNING
    assert [one async for one in launcher.read_logs(WORKER, tail=9, follow=False)] == []


async def test_a_cluster_of_which_something_runs_is_not_forgotten(world, launcher):
    """Its records are how its processes are found."""
    await launcher.start(world.lasting(SCHEDULER))

    with pytest.raises(Exception, match="runs"):
        await launcher.forget("c1")

    assert (await view(launcher)).state is JobState.RUNNING
