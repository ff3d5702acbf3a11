"""The database goes away and comes back. Nothing dies of it."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import structlog

from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import Unavailable
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
from tests.support.postgres import PostgresServer, running_postgres

pytestmark = pytest.mark.integration

RUNNING = PublicStatus.RUNNING

# Far above what a call may take: a loaded machine, and both attempts of a read.
BOUND_S = 30


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """Yield a server that these tests may break."""
    with running_postgres() as server:
        yield server


async def is_away(backend: FakeBackend) -> bool:
    begin = time.monotonic()
    try:
        await backend.check_ready()
    except Unavailable:
        assert time.monotonic() - begin < BOUND_S
        return True
    return False


async def is_back(backend: FakeBackend) -> bool:
    return not await is_away(backend)


async def test_a_frozen_server_is_unavailable_in_time_and_nothing_is_lost(own_postgres):
    backend = make_backend(own_postgres.create_database(), db_timeout=1)
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name)
        async with playing(scheduler, backend):
            await reach(backend, name, RUNNING)
            own_postgres.pause()
            try:
                await eventually(lambda: is_away(backend), within=60)
                for call in (
                    lambda: backend.get_cluster(name),
                    lambda: backend.scale_cluster(name, 2),
                    lambda: backend.start_cluster(ALICE, {}),
                    lambda: backend.check_token(name, "x"),
                    lambda: backend.wait_for_change(name, 10**6, 1),
                ):
                    async with asyncio.timeout(BOUND_S):
                        with pytest.raises(Unavailable):
                            await call()
            finally:
                own_postgres.resume()
            await eventually(lambda: is_back(backend), within=60)
            await backend.scale_cluster(name, 2)
            await eventually(lambda: len(scheduler.connected()) == 2, within=60)


async def test_a_server_that_is_killed_is_waited_for(own_postgres):
    backend = make_backend(own_postgres.create_database(), db_timeout=2)
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name)
        async with playing(scheduler, backend):
            await reach(backend, name, RUNNING)
            await asyncio.to_thread(own_postgres.kill)
            try:
                await eventually(lambda: is_away(backend), within=60)
                # What runs goes on meanwhile: it has no need of a database.
                assert platform.alive(name)
            finally:
                await asyncio.to_thread(own_postgres.start)
            await eventually(lambda: is_back(backend), within=60)
            assert (await backend.get_cluster(name)).status is RUNNING
            await backend.scale_cluster(name, 1)
            await eventually(lambda: len(scheduler.connected()) == 1, within=60)


async def test_a_restart_between_two_calls_is_not_even_noticed(own_postgres):
    backend = make_backend(own_postgres.create_database(), observe_period=3600)
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.to_thread(own_postgres.start)

        assert (await backend.get_cluster(name)).name == name
        assert (await backend.scale_cluster(name, 1)).replicas == 1


async def test_r7_an_outage_is_one_line_of_log_in_half_a_minute(own_postgres):
    backend = make_backend(own_postgres.create_database(), db_timeout=0.5)
    async with running(backend):
        names = [await backend.start_cluster(ALICE, {}) for _ in range(10)]
        with structlog.testing.capture_logs() as lines:
            await asyncio.to_thread(own_postgres.kill)
            try:
                await eventually(lambda: is_away(backend), within=60)
                for name in names:
                    backend._run._wake(name)
                await eventually(lambda: backend._run.outage.is_on)
                for _ in range(5):
                    await is_away(backend)
            finally:
                await asyncio.to_thread(own_postgres.start)
            await eventually(lambda: is_back(backend), within=60)
            await eventually(lambda: not backend._run.outage.is_on, within=60)
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in told if "database" in line["event"]] == [
        "database away",
        "database answers again",
    ]
    assert not [line for line in told if line["log_level"] == "error"]


async def test_a_locked_file_is_unavailable_and_then_goes_on(tmp_path):
    file = tmp_path / "db.sqlite"
    backend = make_backend(f"sqlite:///{file}", db_timeout=0.5)
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            async with asyncio.timeout(BOUND_S):
                with pytest.raises(Unavailable):
                    await backend.scale_cluster(name, 1)
            # Reading goes on: a writer does not keep readers out.
            assert (await backend.get_cluster(name)).name == name
            other.execute("ROLLBACK")

        async def scales() -> bool:
            try:
                await backend.scale_cluster(name, 2)
            except Unavailable:
                return False
            return True

        await eventually(scales)


async def test_a_gateway_waits_for_a_database_that_is_only_starting(own_postgres):
    url = own_postgres.create_database()
    await asyncio.to_thread(own_postgres.kill)
    backend = make_backend(url)
    async with asyncio.TaskGroup() as group:
        setup = group.create_task(backend.setup(None))
        await asyncio.wait([setup], timeout=1)
        assert not setup.done()
        await asyncio.to_thread(own_postgres.start)
    try:
        await backend.check_ready()
    finally:
        await backend.cleanup()


async def test_w6_a_gateway_that_has_not_read_anything_is_not_ready(sqlite_url):
    backend = make_backend(sqlite_url)

    with pytest.raises(Unavailable):
        await backend.check_ready()
    with pytest.raises(Unavailable):
        await backend.list_clusters()
    async with running(backend):
        await backend.check_ready()
    with pytest.raises(Unavailable):
        await backend.check_ready()


async def test_a_table_that_cannot_be_written_is_tried_again(sqlite_url):
    backend = make_backend(sqlite_url)
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        backend.routes.failures = 3
        async with playing(FakeScheduler(platform, name), backend):
            await reach(backend, name, RUNNING, within=60)


async def test_a_launcher_that_cannot_look_is_asked_again(sqlite_url):
    backend = make_backend(sqlite_url)
    launcher, platform = backend.launcher, backend.launcher.platform
    observe = launcher.observe
    failures = iter(range(6))

    async def fail_for_a_while(refs):
        if next(failures, None) is not None:
            raise OSError("squeue: slurmctld does not answer")
        return await observe(refs)

    launcher.observe = fail_for_a_while
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend):
            await reach(backend, name, RUNNING, within=60)
