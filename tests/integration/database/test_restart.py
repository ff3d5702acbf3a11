"""A server is killed at any point, and another takes over. Nothing runs twice."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from backends.database.launcher import JobRef, JobSpec, Role
from backends.database.vault import Vault
from gateway.credentials import make_credentials
from gateway.domain.cluster import PublicStatus
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import ConfigError
from tests.support.database import (
    ALICE,
    KEY,
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


class Killer:
    """Kills a backend at the n-th call of its launcher, before or after it acts."""

    def __init__(self, launcher: FakeLauncher, *, at: int, before: bool) -> None:
        self.dead = asyncio.Event()
        self._left = at
        if before:
            launcher.fail = self._count
        else:
            launcher.lose = self._count

    def _count(self, _call: str, _ref: JobRef) -> None:
        self._left -= 1
        if self._left <= 0:
            self.dead.set()
            raise OSError("killed")  # the answer never arrives


async def live(backend: FakeBackend, name: str, scheduler: FakeScheduler) -> None:
    """Do everything that a user does with a cluster."""
    await reach(backend, name, RUNNING)
    await backend.scale_cluster(name, 3)
    await eventually(lambda: len(scheduler.connected()) == 3)
    await backend.scale_cluster(name, 1)
    await eventually(lambda: len(scheduler.connected()) == 1)
    await backend.stop_cluster(name)
    await reach(backend, name, STOPPED)


async def die_and_go_on(url: str, *, at: int, before: bool) -> Platform:
    platform = Platform()
    first = make_backend(url, launcher=FakeLauncher(platform))
    await first.setup(None)
    killer = Killer(first.launcher, at=at, before=before)
    name = await first.start_cluster(ALICE, {})
    scheduler = FakeScheduler(platform, name)
    async with asyncio.TaskGroup() as group:
        player = group.create_task(scheduler.play(first))
        life = group.create_task(live(first, name, scheduler))
        died = group.create_task(killer.dead.wait())
        await asyncio.wait([life, died], return_when=asyncio.FIRST_COMPLETED)
        for task in (player, life, died):
            task.cancel()
        await asyncio.gather(player, life, died, return_exceptions=True)
        await crash(first)
    assert killer.dead.is_set(), "it lived through: raise the number less"

    second = make_backend(url, launcher=FakeLauncher(platform))
    async with running(second):
        async with playing(scheduler, second):
            status = (await second.get_cluster(name)).status
            if status in (PublicStatus.PENDING, RUNNING):
                await live(second, name, scheduler)
            await reach(second, name, STOPPED)
        await eventually(lambda: not platform.alive())
    return platform


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 4, 5])
async def test_w15_killed_at_any_call_nothing_starts_twice_and_nothing_is_left(
    sqlite_url, at, before
):
    """Calls: 1 the scheduler, 2 to 4 workers, 5 and 6 two ends, 7 and 8 the stop."""
    platform = await die_and_go_on(sqlite_url, at=at, before=before)

    assert all(job.starts == 1 for job in platform.jobs.values())
    assert max(platform.most_alive.values(), default=0) <= 3


@pytest.mark.nightly
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("at", [3, 6, 7, 8])
async def test_w15_killed_at_every_other_call_too(sqlite_url, at, before):
    platform = await die_and_go_on(sqlite_url, at=at, before=before)

    assert all(job.starts == 1 for job in platform.jobs.values())


async def test_a_running_cluster_goes_on_under_the_next_server(url):
    platform = Platform()
    first = make_backend(url, launcher=FakeLauncher(platform))
    await first.setup(None)
    name = await first.start_cluster(ALICE, {})
    scheduler = FakeScheduler(platform, name)
    async with playing(scheduler, first):
        await reach(first, name, RUNNING)
        await first.scale_cluster(name, 2)
        await eventually(lambda: len(scheduler.connected()) == 2)
    jobs = platform.alive()
    await crash(first)

    second = make_backend(url, launcher=FakeLauncher(platform))
    async with running(second):
        # Before anything was reconciled: reads and routes are there at once.
        assert (await second.get_cluster(name)).client is not None
        assert [route.cluster for route in second.routes.table] == [name]
        async with playing(scheduler, second):
            await second.scale_cluster(name, 3)
            await eventually(lambda: len(scheduler.connected()) == 3)
        assert jobs < platform.alive()


async def test_w7_a_failure_is_remembered_over_a_kill_in_its_teardown(sqlite_url):
    platform = Platform(patience=10**6)
    first = make_backend(sqlite_url, launcher=FakeLauncher(platform))
    await first.setup(None)
    name = await first.start_cluster(ALICE, {})
    scheduler = FakeScheduler(platform, name)
    async with playing(scheduler, first):
        await reach(first, name, RUNNING)
        await first.scale_cluster(name, 1)
        await eventually(lambda: len(scheduler.connected()) == 1)
    platform.end(scheduler.ref, 3, "marker")
    await reach(first, name, PublicStatus.STOPPING)
    await crash(first)

    platform.patience = 1
    async with running(
        make_backend(sqlite_url, launcher=FakeLauncher(platform))
    ) as second:
        await reach(second, name, PublicStatus.FAILED)
        cluster = await second.get_cluster(name)
    assert cluster.reason == "SchedulerEnded"
    assert cluster.log_tail == ("marker",)
    assert platform.alive() == set()


async def test_w15_jobs_of_clusters_that_nobody_knows_are_removed(sqlite_url):
    platform = Platform()
    platform.start(JobRef("lost", Role.SCHEDULER, "scheduler"))
    platform.start(JobRef("lost", Role.WORKER, "lost-worker-0"))
    async with running(
        make_backend(sqlite_url, launcher=FakeLauncher(platform))
    ) as backend:
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.forgotten == ["lost"])
        await eventually(lambda: platform.alive(name))
    assert {ref.cluster for ref in platform.jobs} == {name}


async def test_a_start_that_comes_after_the_end_is_undone(sqlite_url):
    """A server that was frozen between its check and its start."""
    platform = Platform()
    late = FakeLauncher(platform)
    async with running(
        make_backend(sqlite_url, launcher=FakeLauncher(platform))
    ) as backend:
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name)
        async with playing(scheduler, backend):
            await reach(backend, name, RUNNING)
            ref = JobRef(name, Role.WORKER, f"{name}-worker-0")
            credentials = await asyncio.to_thread(
                make_credentials, name, backend.clock.now()
            )
            await late.start(
                JobSpec(ref, "alice", ResolvedConfig(), credentials, api_url="x")
            )
            assert ref in platform.alive()
            assert await backend._run._sweeper.sweep()
            assert ref not in platform.alive()
            assert (await backend.get_cluster(name)).status is RUNNING


class LaterClock:
    days = 0

    def now(self):
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=self.days)

    def monotonic(self) -> float:
        return 1000.0 + self.days * 86400


# Keys.


def in_base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


NEW_KEY = "f" * 32


async def test_keys_are_rotated_while_clusters_live(url):
    async with running(make_backend(url)) as backend:
        name = await backend.start_cluster(ALICE, {})
        head = await backend._find(name)
        old = await backend._run.keyring.open_all(head.cluster)

    both = [in_base64(NEW_KEY), KEY]
    async with running(make_backend(url, db_encrypt_keys=both)) as backend:
        assert await backend._run.keyring.open_all(head.cluster) == old
        vault = Vault([NEW_KEY.encode()])

        async def is_rotated() -> bool:
            mark = await backend._run.keyring._read_mark()
            return vault.is_current(mark)

        await eventually(is_rotated)

    # The old key may go now: what it had sealed was sealed anew.
    backend = make_backend(url, db_encrypt_keys=[NEW_KEY])
    async with running(backend):
        assert await backend._run.keyring.open_all(head.cluster) == old


async def test_a_server_with_other_keys_does_not_start(url):
    async with running(make_backend(url)) as backend:
        await backend.start_cluster(ALICE, {})

    stranger = make_backend(url, db_encrypt_keys=[NEW_KEY])
    with pytest.raises(ConfigError, match="db_encrypt_keys"):
        await stranger.setup(None)
    await stranger.cleanup()


async def test_secrets_are_not_in_the_file(tmp_path):
    async with running(make_backend(f"sqlite:///{tmp_path}/db.sqlite")) as backend:
        name = await backend.start_cluster(ALICE, {})
        head = await backend._find(name)
        secrets = await backend._run.keyring.open_all(head.cluster)

    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert name.encode() in held
    for secret in (secrets.token, secrets.ca_key, secrets.client.key):
        assert secret.encode() not in held
        assert secret.splitlines()[-1].encode() not in held or "KEY" in secret


async def test_w31_the_clients_certificate_is_renewed_before_it_ends(sqlite_url):
    clock = LaterClock()
    backend = make_backend(sqlite_url, clock=clock, db_cluster_max_age=10**9)
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend):
            await reach(backend, name, RUNNING)
            before = await backend.get_cluster(name)
    clock.days = 350

    again = make_backend(sqlite_url, launcher=backend.launcher, clock=clock)
    async with running(again):
        after = await again.get_cluster(name)
        same = await again.get_cluster(name)
    assert after.client != before.client
    assert same.client == after.client
    assert same.version > before.version
    assert after.client.certificate.count("BEGIN CERTIFICATE") == 2
