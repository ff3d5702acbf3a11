"""Servers that share a database: who acts, who sees what, and when one is gone."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.database.executor import LeaseLost
from backends.database.launcher import JobRef, Role
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import PublicStatus
from gateway.domain.names import is_cluster_name
from tests.support.database import (
    ALICE,
    FakeBackend,
    FakeScheduler,
    crash,
    make_backend,
    playing,
    reach,
    running,
)
from tests.support.eventually import eventually
from tests.support.fake_launcher import FakeLauncher, Platform

pytestmark = pytest.mark.integration

RUNNING, STOPPED = PublicStatus.RUNNING, PublicStatus.STOPPED


@asynccontextmanager
async def two_servers(
    url: str, platform: Platform, **settings: object
) -> AsyncIterator[tuple[FakeBackend, FakeBackend]]:
    first, second = (
        make_backend(url, launcher=FakeLauncher(platform), **settings) for _ in range(2)
    )
    async with running(first), running(second):
        yield first, second


async def test_calls_may_go_to_either_server(url):
    platform = Platform()
    async with two_servers(url, platform) as (first, second):
        name = await first.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name)
        async with playing(scheduler, second, first):
            await reach(second, name, RUNNING)
            await second.scale_cluster(name, 4)
            await eventually(lambda: len(scheduler.connected()) == 4)
            await first.scale_cluster(name, 1)
            await eventually(lambda: len(scheduler.connected()) == 1)
            await second.stop_cluster(name)
            await reach(first, name, STOPPED)
    assert platform.alive() == set()
    assert platform.most_alive[name] == 4
    assert all(job.starts == 1 for job in platform.jobs.values())


async def test_only_one_server_acts_for_a_cluster(url):
    platform = Platform()
    async with two_servers(url, platform) as (first, second):
        names = [await first.start_cluster(ALICE, {}) for _ in range(3)]
        names += [await second.start_cluster(ALICE, {}) for _ in range(3)]
        await eventually(lambda: len(platform.alive()) == 6)
    starts = [
        {ref.cluster for ref in server.launcher.specs} for server in (first, second)
    ]
    assert starts == [set(names[:3]), set(names[3:])]


async def test_every_server_publishes_all_routes(url):
    platform = Platform()
    async with two_servers(url, platform) as (first, second):
        names = [
            await first.start_cluster(ALICE, {}),
            await second.start_cluster(ALICE, {}),
        ]
        schedulers = [FakeScheduler(platform, name) for name in names]
        async with playing(schedulers[0], second), playing(schedulers[1], first):
            for name in names:
                await reach(first, name, RUNNING)
            for server in (first, second):

                def has_all(server=server) -> bool:
                    return [r.cluster for r in server.routes.table] == sorted(names)

                await eventually(has_all)


async def test_the_clusters_of_a_dead_server_are_taken_over(url):
    platform = Platform()
    first, second = (
        make_backend(url, launcher=FakeLauncher(platform)) for _ in range(2)
    )
    await first.setup(None)
    name = await first.start_cluster(ALICE, {})
    scheduler = FakeScheduler(platform, name)
    async with running(second), playing(scheduler, second):
        await reach(second, name, RUNNING)
        await crash(first)
        # Its lease is still on: what is wanted is written, and done later.
        await second.scale_cluster(name, 2)
        await eventually(lambda: len(scheduler.connected()) == 2, within=60)
    assert set(second.launcher.specs) == {
        JobRef(name, Role.WORKER, f"{name}-worker-{n}") for n in range(2)
    }


async def test_the_clusters_of_a_server_that_ends_in_order_need_no_waiting(url):
    platform = Platform()
    first, second = (
        make_backend(url, launcher=FakeLauncher(platform), lease_duration=3600)
        for _ in range(2)
    )
    async with running(first):
        name = await first.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
    async with running(second), playing(FakeScheduler(platform, name), second):
        await reach(second, name, RUNNING)


class StoppedClock(SystemClock):
    """Like a process that was frozen: it wakes up long after."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


async def test_a_server_that_was_frozen_starts_nothing_until_its_lease_is_renewed(
    sqlite_url,
):
    clock = StoppedClock()
    backend = make_backend(sqlite_url, clock=clock, lease_duration=1)
    platform = backend.launcher.platform
    async with running(backend):
        lease = backend._run.lease
        clock.ahead_s += 3600
        assert not lease.is_valid
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
        assert lease.is_valid


async def test_a_server_whose_lease_is_over_claims_and_starts_nothing(sqlite_url):
    clock = StoppedClock()
    backend = make_backend(sqlite_url, clock=clock, lease_duration=3600)
    platform = backend.launcher.platform
    async with running(backend):
        clock.ahead_s += 7200
        name = await backend.start_cluster(ALICE, {})
        snapshot = await backend._load(name)
        assert not await backend._run.lease.claim(snapshot)
        with pytest.raises(LeaseLost):
            await backend._run._reconciler.reconcile(name)
        assert platform.jobs == {}


# News.


async def test_postgresql_tells_the_others_at_the_commit(postgres_url):
    platform = Platform()
    # No look at all versions for an hour: what is heard was told.
    async with two_servers(postgres_url, platform, observe_period=3600) as servers:
        first, second = servers
        name = await first.start_cluster(ALICE, {})
        # Its connection for listening may still be on the way.
        for _ in range(5):
            version = (await second.get_cluster(name)).version
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                waiter = group.create_task(second.wait_for_change(name, version, 50))
                while not waiter.done():
                    await first.scale_cluster(name, 1)
                    await asyncio.wait([waiter], timeout=1)
        assert (await second.get_cluster(name)).version > version


async def test_a_lost_connection_for_listening_is_made_again(postgres_url):
    platform = Platform()
    async with two_servers(postgres_url, platform, observe_period=3600) as servers:
        first, second = servers
        name = await first.start_cluster(ALICE, {})

        async def cut(connection) -> int:
            found = await connection.exec_driver_sql(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND query LIKE 'LISTEN%'"
            )
            return found.scalar_one()

        async def was_cut() -> bool:
            return await first._run.database.read(cut) > 0

        await eventually(was_cut)
        version = (await second.get_cluster(name)).version
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            waiter = group.create_task(second.wait_for_change(name, 10**9, 90))
            while not waiter.done():
                await first.scale_cluster(name, 1)
                await asyncio.wait([waiter], timeout=1)
        assert (await second.get_cluster(name)).version > version


async def test_changes_of_others_are_found_where_nobody_tells(sqlite_url):
    platform = Platform()
    async with two_servers(sqlite_url, platform) as (first, second):
        name = await first.start_cluster(ALICE, {})
        version = (await second.get_cluster(name)).version
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(second.wait_for_change(name, version, 50))
            await first.scale_cluster(name, 1)


# Real processes.

PROGRAM = """
import asyncio, json, sys
from gateway.domain.errors import LimitExceeded
from gateway.domain.policy import Caps, Policy
from tests.support.database import ALICE, make_backend, running

async def main():
    backend = make_backend(sys.argv[1], policy=Policy(default=Caps(clusters=3)))
    async with running(backend):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        tasks = [backend.start_cluster(ALICE, {}) for _ in range(10)]
        made = await asyncio.gather(*tasks, return_exceptions=True)
        print(json.dumps([
            one if isinstance(one, str) else type(one).__name__ for one in made
        ]), flush=True)

asyncio.run(main())
"""


async def test_twenty_creates_on_two_server_processes_pass_no_cap(url):
    def run() -> list[str]:
        servers = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
            )
            for _ in range(2)
        ]
        for server in servers:
            assert any(line == "ready\n" for line in server.stdout)
        for server in servers:
            server.stdin.write("go\n")
            server.stdin.flush()
        answers = []
        for server in servers:
            output, _ = server.communicate(timeout=100)
            answers += json.loads(output.splitlines()[-1])
        return answers

    answers = await asyncio.to_thread(run)

    accepted = [answer for answer in answers if is_cluster_name(answer)]
    assert len(answers) == 20
    assert len(accepted) == len(set(accepted)) == 3
    assert {a for a in answers if a not in accepted} == {"LimitExceeded"}


async def test_a_lease_that_runs_out_while_a_cluster_is_read_delays_it_only(
    sqlite_url, monkeypatch
):
    """It bears the server's own name, so no look for free clusters would find it."""
    async with running(make_backend(sqlite_url)) as backend:
        runtime = backend._runtime
        load = runtime.store.load
        lapses = []

        async def load_slowly(name):
            snapshot = await load(name)
            if not lapses:
                lapses.append(name)
                runtime.lease._until = float("-inf")
            return snapshot

        monkeypatch.setattr(runtime.store, "load", load_slowly)
        name = await backend.start_cluster(ALICE, {})

        await eventually(lambda: lapses == [name])
        await eventually(lambda: backend.launcher.platform.alive(name))
