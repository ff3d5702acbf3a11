"""Jobs without rows, and proofs that take too long."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from backends.database import observe
from backends.database.launcher import JobRef, Role
from backends.database.sweep import Sweeper
from gateway.domain.cluster import PublicStatus
from tests.support.database import (
    ALICE,
    FakeBackend,
    FakeScheduler,
    make_backend,
    playing,
    reach,
    running,
)
from tests.support.eventually import eventually

pytestmark = pytest.mark.integration

ORPHANS = [
    JobRef("lost", Role.SCHEDULER, "scheduler"),
    JobRef("lost", Role.WORKER, "lost-worker-0"),
]


@pytest_asyncio.fixture
async def backend(sqlite_url: str) -> AsyncIterator[FakeBackend]:
    async with running(make_backend(sqlite_url)) as backend:
        yield backend


@pytest.fixture
def sweeper(backend: FakeBackend) -> Sweeper:
    return Sweeper(backend._run.database, backend.launcher)


async def test_a_platform_without_jobs_is_clean(sweeper):
    assert await sweeper.sweep()


async def test_orphans_are_forgotten_only_once_nothing_of_them_is_left(
    backend, sweeper
):
    platform = backend.launcher.platform
    platform.patience = 3
    for ref in ORPHANS:
        platform.start(ref)

    assert not await sweeper.sweep()
    assert platform.forgotten == []
    assert not await sweeper.sweep()
    assert await sweeper.sweep()
    assert platform.forgotten == ["lost"]


async def test_jobs_that_rows_ask_for_are_left_alone(backend, sweeper):
    platform = backend.launcher.platform
    name = await backend.start_cluster(ALICE, {})
    async with playing(FakeScheduler(platform, name), backend) as scheduler:
        await backend.scale_cluster(name, 2)
        await eventually(lambda: len(scheduler.connected()) == 2)
        alive = platform.alive()

        assert await sweeper.sweep()

        assert platform.alive() == alive
        assert (await backend.get_cluster(name)).status is PublicStatus.RUNNING


async def test_logs_of_an_ended_cluster_stay_until_it_is_deleted(backend, sweeper):
    platform = backend.launcher.platform
    name = await backend.start_cluster(ALICE, {})
    await eventually(lambda: platform.alive(name))
    await backend.stop_cluster(name)
    await reach(backend, name, PublicStatus.STOPPED)

    assert await sweeper.sweep()

    assert [ref.cluster for ref in platform.jobs] == [name]


@pytest.mark.parametrize("proof", ["prove", "prove_scheduler"])
async def test_a_proof_that_hangs_is_none_and_is_tried_again(
    backend, proof, monkeypatch
):
    monkeypatch.setattr(observe, "_PROVE_S", 0.05)
    honest = getattr(backend.routes, proof)
    hangs = iter(range(2))

    async def hang_at_first(*words: object) -> bool:
        if next(hangs, None) is not None:
            await asyncio.Event().wait()
        return await honest(*words)

    setattr(backend.routes, proof, hang_at_first)
    name = await backend.start_cluster(ALICE, {})
    async with playing(FakeScheduler(backend.launcher.platform, name), backend):
        await reach(backend, name, PublicStatus.RUNNING, within=60)
