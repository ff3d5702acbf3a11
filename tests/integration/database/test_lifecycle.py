"""Clusters from the first request to the last trace, on a platform in memory."""

import asyncio
from contextlib import aclosing

import pytest

from backends.database.launcher import JobRef, JobState, Role
from gateway.domain.cluster import PublicStatus, WorkerState
from gateway.domain.errors import InvalidRequest
from gateway.domain.policy import Caps, Policy
from gateway.domain.sync import SyncReport
from gateway.ports import LogQuery
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
from tests.support.fake_launcher import SCHEDULER_PORT

pytestmark = pytest.mark.integration

RUNNING, STOPPED = PublicStatus.RUNNING, PublicStatus.STOPPED
FAILED = PublicStatus.FAILED


def scheduler_of(name: str) -> JobRef:
    return JobRef(name, Role.SCHEDULER, "scheduler")


def worker_of(name: str, ordinal: int) -> JobRef:
    return JobRef(name, Role.WORKER, f"{name}-worker-{ordinal}")


async def reasons(backend: FakeBackend, name: str) -> list[str]:
    return [event.reason for event in await backend.list_events(name)]


async def failure(backend: FakeBackend, name: str) -> tuple[str, str]:
    await reach(backend, name, FAILED)
    cluster = await backend.get_cluster(name)
    assert backend.launcher.platform.alive() == set()
    return cluster.reason, cluster.message


async def test_a_cluster_starts_scales_and_stops(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend) as scheduler:
            await reach(backend, name, RUNNING)
            await backend.scale_cluster(name, 3)
            await eventually(lambda: len(scheduler.connected()) == 3)
            await backend.scale_cluster(name, 1)
            await eventually(lambda: len(scheduler.connected()) == 1)
            await backend.stop_cluster(name)
            await reach(backend, name, STOPPED)

        assert platform.alive() == set()
        await eventually(lambda: backend.routes.table == ())
        states = [w.state for w in await backend.list_workers(name)]
        assert states == [WorkerState.STOPPED] * 3
        want = ["SchedulerStarted", "SchedulerConnected", "Running", "WorkersAdded"]
        assert [*want, "StoppedByUser", "Stopped"] == await reasons(backend, name)


async def test_the_scheduler_gets_its_address_plugin_url_and_secrets(sqlite_url):
    url = "http://127.0.0.1:8000/api"
    async with running(make_backend(sqlite_url, api_url=url)) as backend:
        platform, specs = backend.launcher.platform, backend.launcher.specs
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend):
            await backend.scale_cluster(name, 1)
            await eventually(lambda: worker_of(name, 0) in specs)

        scheduler, worker = specs[scheduler_of(name)], specs[worker_of(name, 0)]
        assert scheduler.api_url == url
        assert scheduler.owner == "alice"
        assert scheduler.scheduler_address is None
        assert worker.scheduler_address == f"tls://127.0.0.1:{SCHEDULER_PORT}"
        assert worker.credentials == scheduler.credentials
        assert await backend.check_token(name, scheduler.credentials.token)
        client = (await backend.get_cluster(name)).client
        assert client == scheduler.credentials.client
        (proved, ca), *_ = backend.routes.proved
        assert (proved, ca) == (name, scheduler.credentials.ca_certificate)


# Failures, each with its reason.


async def test_a_refused_command_fails_with_the_launchers_words(sqlite_url):
    backend = make_backend(sqlite_url)
    backend.launcher.refuse = {Role.SCHEDULER: "no such command: dusk-scheduler"}
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})

        reason, message = await failure(backend, name)

    assert reason == "StartFailed"
    assert "no such command: dusk-scheduler" in message


async def test_a_scheduler_that_ends_fails_with_its_exit_code_and_last_lines(
    sqlite_url,
):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))

        platform.end(scheduler_of(name), 3, "Traceback", "ImportError: marker")

        assert await failure(backend, name) == (
            "SchedulerEnded",
            "scheduler ended with exit status 3",
        )
        cluster = await backend.get_cluster(name)
        assert cluster.log_tail == ("Traceback", "ImportError: marker")


async def test_w13_a_scheduler_that_never_calls_fails_at_its_deadline(sqlite_url):
    async with running(make_backend(sqlite_url, cluster_start_timeout=0.3)) as backend:
        name = await backend.start_cluster(ALICE, {})

        reason, message = await failure(backend, name)

    assert reason == "StartDeadlinePassed"
    assert "did not call the gateway" in message


@pytest.mark.parametrize("kind", ["impostor", "foreign-port"])
async def test_w33_nothing_is_routed_to_that_did_not_prove_itself(sqlite_url, kind):
    async with running(make_backend(sqlite_url, cluster_start_timeout=1)) as backend:
        name = await backend.start_cluster(ALICE, {})
        if kind == "impostor":
            backend.routes.impostors.add(name)
        else:
            backend.launcher.foreign_ports.add(SCHEDULER_PORT)
        async with playing(FakeScheduler(backend.launcher.platform, name), backend):
            reason, message = await failure(backend, name)

    assert reason == "StartDeadlinePassed"
    assert str(SCHEDULER_PORT) in message
    assert all(table == () for table in backend.routes.publications)


async def test_a_route_that_does_not_answer_fails_as_such(sqlite_url):
    async with running(make_backend(sqlite_url, cluster_start_timeout=1)) as backend:
        name = await backend.start_cluster(ALICE, {})
        backend.routes.dead.add(name)
        async with playing(FakeScheduler(backend.launcher.platform, name), backend):
            reason, _ = await failure(backend, name)

    assert reason == "RouteFailed"


async def test_workers_that_crash_in_a_row_fail_the_cluster_with_their_words(
    sqlite_url,
):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name, never_connect=True)
        async with playing(scheduler, backend):
            await backend.scale_cluster(name, 1)

            def crash() -> bool:
                for ref in platform.alive(name, Role.WORKER):
                    platform.end(ref, 3, "ImportError: marker")
                return not platform.alive(name)

            await eventually(crash)
            reason, message = await failure(backend, name)

        assert reason == "WorkersCrashing"
        assert "3 workers in a row failed" in message
        assert "exit status 3" in message
        cluster = await backend.get_cluster(name)
        assert cluster.log_tail == ("ImportError: marker",)
        assert len(await backend.list_workers(name)) == 3


async def test_a_worker_that_never_connects_is_replaced_and_then_fails_the_cluster(
    sqlite_url,
):
    settings = {"worker_start_timeout": 0.3, "worker_start_failure_limit": 2}
    async with running(make_backend(sqlite_url, **settings)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(platform, name, never_connect=True)
        async with playing(scheduler, backend):
            await backend.scale_cluster(name, 1)
            reason, message = await failure(backend, name)

    assert reason == "WorkersCrashing"
    assert "did not connect to the scheduler within 0.3 s" in message
    assert platform.most_alive[name] == 1


async def test_a_refused_worker_fails_the_cluster(sqlite_url):
    backend = make_backend(sqlite_url)
    backend.launcher.refuse = {Role.WORKER: "no such command: dusk-worker"}
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(backend.launcher.platform, name), backend):
            await backend.scale_cluster(name, 2)
            reason, message = await failure(backend, name)

    assert reason == "WorkersCrashing"
    assert "dusk-worker" in message


async def test_w12_a_full_queue_is_waited_for(sqlite_url):
    backend = make_backend(sqlite_url, cluster_start_timeout=0.2)
    backend.launcher.first_state = JobState.PENDING
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
        looks = len(backend.launcher.specs)

        async def waits() -> bool:
            snapshot = await backend._load(name)
            return snapshot.cluster.launched and backend._now_ms() > (
                snapshot.cluster.created_ms + 500
            )

        await eventually(waits)
        assert (await backend.get_cluster(name)).status is PublicStatus.PENDING
        async with playing(FakeScheduler(platform, name), backend):
            platform.run(scheduler_of(name))
            await eventually(lambda: len(backend.launcher.specs) >= looks)
            await reach(backend, name, RUNNING, within=60)


# Stops.


async def test_w11_a_stop_that_fails_is_tried_until_it_succeeds(sqlite_url):
    backend = make_backend(sqlite_url)
    platform = backend.launcher.platform
    failures = {"left": 5}

    def fail(call: str, _ref: JobRef) -> None:
        if call == "stop" and failures["left"] > 0:
            failures["left"] -= 1
            raise OSError("qdel: connection refused")

    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend):
            await reach(backend, name, RUNNING)
            backend.launcher.fail = fail
            await backend.stop_cluster(name)

            async def ends() -> bool:
                status = (await backend.get_cluster(name)).status
                assert status is not STOPPED or not platform.alive()
                return status is STOPPED

            await eventually(ends)
    assert failures["left"] == 0


async def test_a_stop_is_asked_for_until_nothing_is_left(sqlite_url):
    backend = make_backend(sqlite_url)
    backend.launcher.platform.patience = 3
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: backend.launcher.platform.alive(name))
        await backend.stop_cluster(name)
        await reach(backend, name, STOPPED)

    assert backend.launcher.platform.jobs[scheduler_of(name)].stops == 3


async def test_a_start_that_fails_for_a_while_succeeds_in_the_end(sqlite_url):
    backend = make_backend(sqlite_url)
    attempts = []

    def fail(call: str, ref: JobRef) -> None:
        attempts.append((call, ref))
        if len(attempts) < 4:
            raise OSError("try again")

    backend.launcher.fail = fail
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(backend.launcher.platform, name), backend):
            await reach(backend, name, RUNNING)


async def test_answers_that_are_lost_start_nothing_twice(sqlite_url):
    backend = make_backend(sqlite_url)
    platform = backend.launcher.platform
    lost: set[tuple[str, JobRef]] = set()

    def lose(call: str, ref: JobRef) -> None:
        if (call, ref) not in lost:
            lost.add((call, ref))
            raise OSError("connection reset")

    backend.launcher.lose = lose
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend) as scheduler:
            await backend.scale_cluster(name, 3)
            await eventually(lambda: len(scheduler.connected()) == 3)
            await backend.stop_cluster(name)
            await reach(backend, name, STOPPED)

    assert all(job.starts == 1 for job in platform.jobs.values())
    assert platform.most_alive[name] == 3
    assert platform.alive() == set()


async def test_a_worker_that_dies_is_replaced(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend) as scheduler:
            await backend.scale_cluster(name, 2)
            await eventually(lambda: len(scheduler.connected()) == 2)
            await eventually(lambda: connected(backend, name, 2))

            platform.end(worker_of(name, 0), -9)

            want = [f"{name}-worker-1", f"{name}-worker-2"]
            await eventually(lambda: scheduler.connected() == want)
    assert platform.most_alive[name] == 2


async def connected(backend: FakeBackend, name: str, count: int) -> bool:
    workers = await backend.list_workers(name)
    return [w.state for w in workers].count(WorkerState.RUNNING) == count


async def test_an_adaptive_cluster_follows_its_target(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend) as scheduler:
            scheduler.target = 9
            await backend.adapt_cluster(name, 1, 4)
            await eventually(lambda: len(scheduler.connected()) == 4)
            scheduler.target = 0
            await eventually(lambda: len(scheduler.connected()) == 1)
    assert platform.most_alive[name] == 4


# Lifetimes.


async def test_an_idle_cluster_is_stopped(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        name = await backend.start_cluster(ALICE, {})
        scheduler = FakeScheduler(backend.launcher.platform, name, idle_s=1801)
        async with playing(scheduler, backend):
            await reach(backend, name, STOPPED)
        cluster = await backend.get_cluster(name)
    assert (cluster.reason, cluster.message) == (
        "IdleTimeout",
        "idle for 1800 s (idle_timeout)",
    )


async def test_an_ended_cluster_is_kept_for_its_time_and_leaves_no_trace(sqlite_url):
    settings = {"db_cluster_max_age": 1, "db_cleanup_period": 1}
    async with running(make_backend(sqlite_url, **settings)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
        await backend.stop_cluster(name)
        await reach(backend, name, STOPPED)
        assert await reasons(backend, name)

        async def is_gone() -> bool:
            everything = await backend.list_clusters(None, list(PublicStatus))
            return list(everything) == []

        await eventually(is_gone)
        assert platform.forgotten == [name]
        assert platform.jobs == {}


async def test_what_a_database_in_memory_knows_ends_with_it():
    backend = make_backend("sqlite://")
    platform = backend.launcher.platform
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend):
            await reach(backend, name, RUNNING)

    assert platform.alive() == set()


async def test_clusters_outlive_the_gateway_unless_it_is_told_otherwise(sqlite_url):
    first = make_backend(sqlite_url)
    platform = first.launcher.platform
    async with running(first):
        name = await first.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
    assert platform.alive()

    last = make_backend(
        sqlite_url, launcher=first.launcher, stop_clusters_on_shutdown=True
    )
    async with running(last):
        pass
    assert platform.alive() == set()


# Shares.


async def test_a_scale_is_cut_to_what_the_share_has_left(sqlite_url):
    policy = Policy(groups={"lab": Caps(workers=5)})
    async with running(make_backend(sqlite_url, policy=policy)) as backend:
        first = await backend.start_cluster(ALICE, {})
        second = await backend.start_cluster(ALICE, {})
        await backend.scale_cluster(first, 3)

        outcome = await backend.scale_cluster(second, 9)
        bounds = await backend.adapt_cluster(second, 1, 9)

    assert outcome.replicas == 2
    assert "group 'lab'" in outcome.message
    assert (bounds.minimum, bounds.maximum) == (1, 2)


async def test_scales_at_once_do_not_pass_a_cap_together(sqlite_url):
    policy = Policy(default=Caps(workers=10))
    async with running(make_backend(sqlite_url, policy=policy)) as backend:
        names = [await backend.start_cluster(ALICE, {}) for _ in range(4)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(backend.scale_cluster(name, 4)) for name in names
            ]
        ((_, usage),) = await backend.get_usage(ALICE)

    assert sum(task.result().replicas for task in tasks) == 10
    assert usage.workers == 10


# Logs.


async def read(backend: FakeBackend, name: str, **query: object) -> list[str]:
    async with aclosing(backend.read_logs(name, LogQuery(**query))) as lines:
        return [line async for line in lines]


async def test_logs_are_read_by_component_and_worker(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        async with playing(FakeScheduler(platform, name), backend) as scheduler:
            await backend.scale_cluster(name, 2)
            await eventually(lambda: len(scheduler.connected()) == 2)
        platform.jobs[scheduler_of(name)].lines += ["s1", "s2", "s3"]
        platform.jobs[worker_of(name, 0)].lines += ["w0"]
        platform.jobs[worker_of(name, 1)].lines += ["w1"]
        one = f"{name}-worker-1"

        assert await read(backend, name, tail=2) == ["s2", "s3"]
        assert await read(backend, name, component="worker", worker=one) == ["w1"]
        assert await read(backend, name, component="worker") == [
            f"[{name}-worker-0] w0",
            f"[{name}-worker-1] w1",
        ]
        for wrong in (
            {"component": "nothing"},
            {"component": "worker", "worker": "elsewhere-worker-0"},
            {"component": "worker", "worker": f"{name}-worker-7"},
            {"component": "worker", "follow": True},
        ):
            with pytest.raises(InvalidRequest):
                await read(backend, name, **wrong)


async def test_the_last_lines_of_a_failed_scheduler_outlive_its_log(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        platform = backend.launcher.platform
        name = await backend.start_cluster(ALICE, {})
        await eventually(lambda: platform.alive(name))
        platform.end(scheduler_of(name), 3, "one", "two")
        await reach(backend, name, FAILED)
        platform.jobs.clear()

        assert await read(backend, name) == ["one", "two"]
        assert await read(backend, name, tail=1) == ["two"]
        assert await read(backend, name, tail=0) == []


# What must not leak.


async def test_w27_names_that_nobody_has_are_waited_for_without_a_trace(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        async with asyncio.TaskGroup() as group:
            for n in range(100):
                group.create_task(backend.wait_for_change(f"nothing-{n}", 0, 30))
        assert len(backend._run.waiters) == 0
        assert backend._run.waiters.names == 0


async def test_a_wait_that_is_cancelled_leaves_nothing(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        name = await backend.start_cluster(ALICE, {})
        async with asyncio.TaskGroup() as group:
            task = group.create_task(backend.wait_for_change(name, 10**6, 60))
            # Looked at in every turn: any change of the cluster ends the wait.
            await eventually(lambda: len(backend._run.waiters) == 1, every=0)
            task.cancel()
        assert len(backend._run.waiters) == 0
        await backend.check_ready()


async def test_calls_that_are_cancelled_leave_the_store_usable(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        name = await backend.start_cluster(ALICE, {})
        for n in range(30):
            task = asyncio.get_running_loop().create_task(
                backend.scale_cluster(name, n % 5)
            )
            for _ in range(n):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        outcome = await backend.scale_cluster(name, 3)

        assert outcome.replicas == 3
        assert (await backend.get_wanted(name)).replicas == 3


async def test_w16_a_report_with_names_that_nobody_knows_is_taken(sqlite_url):
    async with running(make_backend(sqlite_url)) as backend:
        name = await backend.start_cluster(ALICE, {})
        report = SyncReport(
            protocol=1,
            workers=("gpu-node", f"{name}-worker-99", "x" * 500),
            draining=(f"{name}-worker-98",),
            held={"gpu-node": "x"},
            outsiders=3,
            idle_s=float("nan"),
        )

        reply = await backend.sync(name, report)

        assert reply.active
        assert await backend.list_workers(name) == ()
