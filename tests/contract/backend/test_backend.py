"""What every `gateway.ports.Backend` promises to the API."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.domain.cluster import PublicStatus, StopReason
from gateway.domain.errors import (
    ClusterNotFound,
    ClusterNotRunning,
    InvalidRequest,
    LimitExceeded,
    UserError,
)
from gateway.domain.names import is_cluster_name
from gateway.domain.policy import Caps, Policy
from gateway.domain.sync import SyncReport
from gateway.ports import Backend, LogQuery
from tests.support.backend_subject import MAX_WORKERS, Subject
from tests.support.database import ALICE, BOB
from tests.support.eventually import eventually

REPORT = SyncReport(protocol=1)

OVER = (PublicStatus.STOPPED, PublicStatus.FAILED)


async def is_over(subject: Subject, name: str) -> bool:
    return (await subject.backend.get_cluster(name)).status in OVER


# Create, get, list.


async def test_a_new_cluster_is_there_at_once_whoever_is_asked(subject):
    name = await subject.backend.start_cluster(ALICE, {"size": 3})

    for _ in range(3):
        cluster = await subject.backend.get_cluster(name)
        assert is_cluster_name(cluster.name)
        assert cluster.owner == "alice"
        assert cluster.status in (PublicStatus.PENDING, PublicStatus.RUNNING)
        assert cluster.options == {"size": 3}
        assert cluster.limits.max_workers == MAX_WORKERS
        assert cluster.start_ms > 0
        assert cluster.stop_ms is None


async def test_names_differ(subject):
    names = [await subject.backend.start_cluster(ALICE, {}) for _ in range(5)]

    assert len(set(names)) == 5


async def test_refused_options_leave_nothing_behind(subject):
    with pytest.raises(UserError):
        await subject.backend.start_cluster(ALICE, {"size": 99})

    assert list(await subject.backend.list_clusters()) == []


async def test_lists_are_by_user_and_oldest_first(subject):
    first = await subject.backend.start_cluster(ALICE, {})
    other = await subject.backend.start_cluster(BOB, {})
    last = await subject.backend.start_cluster(ALICE, {})

    mine = await subject.backend.list_clusters("alice")
    everybodys = await subject.backend.list_clusters()

    assert [c.name for c in mine] == [first, last]
    assert [c.name for c in everybodys] == [first, other, last]


async def test_lists_show_what_is_active_unless_asked_otherwise(subject):
    live = await subject.backend.start_cluster(ALICE, {})
    over = await subject.backend.start_cluster(ALICE, {})
    await subject.backend.stop_cluster(over)
    await eventually(lambda: is_over(subject, over))

    active = await subject.backend.list_clusters("alice")
    stopped = await subject.backend.list_clusters("alice", [PublicStatus.STOPPED])
    both = await subject.backend.list_clusters("alice", list(PublicStatus))
    none = await subject.backend.list_clusters("alice", [])

    assert [c.name for c in active] == [live]
    assert [c.name for c in stopped] == [over]
    assert [c.name for c in both] == [live, over]
    assert list(none) == []


async def test_lists_hand_out_no_keys(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)

    (cluster,) = await subject.backend.list_clusters("alice")

    assert cluster.status is PublicStatus.RUNNING
    assert cluster.client is None


async def test_keys_are_handed_out_while_a_cluster_runs(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)

    running = await subject.backend.get_cluster(name)
    await subject.backend.stop_cluster(name)
    stopping = await subject.backend.get_cluster(name)

    assert running.client is not None
    assert "CERTIFICATE" in running.client.certificate
    assert running.has_dashboard
    assert stopping.client is None


async def test_names_that_do_not_exist_are_not_found(subject):
    backend: Backend = subject.backend

    async def read_logs() -> None:
        async for _ in backend.read_logs("nothing", LogQuery()):
            pass

    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: backend.get_cluster("nothing"),
        lambda: backend.stop_cluster("nothing"),
        lambda: backend.scale_cluster("nothing", 1),
        lambda: backend.adapt_cluster("nothing", 0, 1),
        lambda: backend.end_adaptive("nothing"),
        lambda: backend.sync("nothing", REPORT),
        lambda: backend.get_wanted("nothing"),
        lambda: backend.list_events("nothing"),
        lambda: backend.list_workers("nothing"),
        read_logs,
    ]
    for call in calls:
        with pytest.raises(ClusterNotFound):
            await call()


# Stop.


async def test_a_stop_ends_a_cluster_and_keeps_its_reason(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    await subject.backend.stop_cluster(
        name, reason=StopReason.ADMIN, message="stopped by root"
    )

    await eventually(lambda: is_over(subject, name))
    cluster = await subject.backend.get_cluster(name)
    assert cluster.status is PublicStatus.STOPPED
    assert (cluster.reason, cluster.message) == ("StoppedByAdmin", "stopped by root")
    assert cluster.stop_ms is not None
    reasons = [e.reason for e in await subject.backend.list_events(name)]
    assert "StoppedByAdmin" in reasons


async def test_the_first_stop_counts(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    await subject.backend.stop_cluster(name, reason=StopReason.USER)
    await subject.backend.stop_cluster(name, reason=StopReason.ADMIN)
    await eventually(lambda: is_over(subject, name))
    await subject.backend.stop_cluster(name, reason=StopReason.ADMIN)

    assert (await subject.backend.get_cluster(name)).reason == "StoppedByUser"


async def test_a_stop_is_seen_at_once(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)

    await subject.backend.stop_cluster(name)

    for _ in range(2):
        status = (await subject.backend.get_cluster(name)).status
        assert status in (PublicStatus.STOPPING, PublicStatus.STOPPED)


async def test_w5_a_stop_right_after_a_create_is_not_lost(subject):
    for _ in range(3):
        name = await subject.backend.start_cluster(ALICE, {})
        await subject.backend.stop_cluster(name)

        await eventually(lambda name=name: is_over(subject, name))


# Scale and adapt.


async def test_a_pending_cluster_takes_wishes_too(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    outcome = await subject.backend.scale_cluster(name, 3)

    assert (outcome.replicas, outcome.message) == (3, None)
    assert (await subject.backend.get_wanted(name)).replicas == 3


async def test_scaling_is_cut_to_the_limit_of_the_cluster(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    outcome = await subject.backend.scale_cluster(name, MAX_WORKERS + 1)

    assert outcome.replicas == MAX_WORKERS
    assert f"Scaling to {MAX_WORKERS} instead" in outcome.message
    assert (await subject.backend.get_wanted(name)).replicas == MAX_WORKERS


async def test_bounds_are_cut_to_the_limit_of_the_cluster(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    outcome = await subject.backend.adapt_cluster(name, 1, 99)

    assert (outcome.minimum, outcome.maximum) == (1, MAX_WORKERS)
    assert f"Using `maximum={MAX_WORKERS}, minimum=1` instead" in outcome.message


async def test_bounds_without_a_maximum_get_the_limit(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    outcome = await subject.backend.adapt_cluster(name, None, None)

    assert (outcome.minimum, outcome.maximum) == (0, MAX_WORKERS)


async def test_bad_numbers_are_refused_and_change_nothing(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    before = await subject.backend.get_wanted(name)

    with pytest.raises(InvalidRequest):
        await subject.backend.scale_cluster(name, -1)
    with pytest.raises(InvalidRequest):
        await subject.backend.adapt_cluster(name, 3, 2)

    assert await subject.backend.get_wanted(name) == before


async def test_the_last_call_wins(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    await subject.backend.adapt_cluster(name, 2, 5)
    bounds = (await subject.backend.get_wanted(name)).adaptive
    await subject.backend.scale_cluster(name, 4)
    old = SyncReport(protocol=1, adaptive_id=bounds.id, target=3)
    await subject.backend.sync(name, old)

    wanted = await subject.backend.get_wanted(name)
    assert (wanted.replicas, wanted.adaptive) == (4, None)


async def test_each_adapt_has_an_id_of_its_own(subject):
    name = await subject.backend.start_cluster(ALICE, {})

    await subject.backend.adapt_cluster(name, 1, 4)
    first = (await subject.backend.get_wanted(name)).adaptive
    await subject.backend.adapt_cluster(name, 1, 4)
    second = (await subject.backend.get_wanted(name)).adaptive

    assert first.id != second.id


async def test_the_end_of_adaptive_mode_leaves_the_number(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.backend.adapt_cluster(name, 3, 5)

    await subject.backend.end_adaptive(name)
    await subject.backend.end_adaptive(name)

    wanted = await subject.backend.get_wanted(name)
    assert (wanted.replicas, wanted.adaptive) == (3, None)


async def test_a_stopped_cluster_takes_no_wishes(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.backend.stop_cluster(name)

    for call in (
        lambda: subject.backend.scale_cluster(name, 1),
        lambda: subject.backend.adapt_cluster(name, 0, 1),
        lambda: subject.backend.end_adaptive(name),
    ):
        with pytest.raises(ClusterNotRunning):
            await call()


# Sync.


async def test_a_generation_grows_with_each_wish(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    seen = [(await subject.backend.sync(name, REPORT)).generation]

    await subject.backend.scale_cluster(name, 2)
    seen.append((await subject.backend.sync(name, REPORT)).generation)
    await subject.backend.adapt_cluster(name, 0, 4)
    seen.append((await subject.backend.sync(name, REPORT)).generation)
    await subject.backend.stop_cluster(name)
    last = await subject.backend.sync(name, REPORT)
    seen.append(last.generation)

    assert seen == sorted(set(seen))
    assert not last.active


async def test_a_report_without_news_makes_no_generation(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)

    first = await subject.backend.sync(name, REPORT)
    second = await subject.backend.sync(name, REPORT)

    assert first == second


async def test_a_target_is_clamped_to_the_bounds(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.backend.adapt_cluster(name, 2, 5)
    bounds = (await subject.backend.get_wanted(name)).adaptive

    high = SyncReport(protocol=1, adaptive_id=bounds.id, target=50)
    low = SyncReport(protocol=1, adaptive_id=bounds.id, target=0)

    assert (await subject.backend.sync(name, high)).replicas == 5
    assert (await subject.backend.sync(name, low)).replicas == 2


async def test_asking_what_is_wanted_writes_nothing(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)
    before = await subject.backend.get_cluster(name)

    for _ in range(3):
        await subject.backend.get_wanted(name)

    assert (await subject.backend.get_cluster(name)).version == before.version


async def test_a_token_opens_its_own_cluster_only(subject):
    mine = await subject.backend.start_cluster(ALICE, {})
    other = await subject.backend.start_cluster(ALICE, {})
    token = await subject.token(mine)

    assert await subject.backend.check_token(mine, token)
    assert not await subject.backend.check_token(other, token)
    assert not await subject.backend.check_token(mine, token[:-1])
    assert not await subject.backend.check_token(mine, "")
    assert not await subject.backend.check_token(mine, "tökèn")
    assert not await subject.backend.check_token("nothing", token)
    assert not await subject.backend.check_token("nothing", "")


# Waiting.


async def test_a_wait_ends_with_the_change_that_it_waits_for(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)
    version = (await subject.backend.get_cluster(name)).version

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(subject.backend.wait_for_change(name, version, 60))
        group.create_task(subject.backend.wait_for_change(name, version, 60))
        await asyncio.sleep(0)
        await subject.backend.scale_cluster(name, 1)

    assert (await subject.backend.get_cluster(name)).version > version


async def test_a_wait_for_what_has_already_been_ends_at_once(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    version = (await subject.backend.get_cluster(name)).version
    await subject.backend.scale_cluster(name, 1)

    async with asyncio.timeout(30):
        await subject.backend.wait_for_change(name, version, 60)


async def test_a_wait_ends_when_its_time_is_over(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    await subject.run(name)
    version = (await subject.backend.get_cluster(name)).version

    async with asyncio.timeout(30):
        await subject.backend.wait_for_change(name, version + 1000, 0.05)


async def test_a_wait_for_a_name_that_does_not_exist_ends_at_once(subject):
    async with asyncio.timeout(30):
        await subject.backend.wait_for_change("nothing", 0, 60)


async def test_equal_versions_are_equal_records(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    seen = {}
    await subject.backend.scale_cluster(name, 1)
    await subject.run(name)
    await subject.backend.stop_cluster(name)

    async def has_stopped() -> bool:
        cluster = await subject.backend.get_cluster(name)
        assert seen.setdefault(cluster.version, cluster) == cluster
        return cluster.status is PublicStatus.STOPPED

    await eventually(has_stopped, every=0.002)
    versions = list(seen)
    assert versions == sorted(versions)


# Caps.


@pytest.mark.parametrize("policy", [Policy(default=Caps(clusters=3))], indirect=True)
async def test_of_twenty_creates_at_once_just_as_many_are_accepted_as_may_be(subject):
    async def create() -> bool:
        try:
            await subject.backend.start_cluster(ALICE, {})
        except LimitExceeded:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(create()) for _ in range(20)]

    assert sum(task.result() for task in tasks) == 3
    assert len(await subject.backend.list_clusters("alice")) == 3


@pytest.mark.parametrize("policy", [Policy(default=Caps(clusters=1))], indirect=True)
async def test_a_stop_makes_room_at_once(subject):
    name = await subject.backend.start_cluster(ALICE, {})
    with pytest.raises(LimitExceeded, match="user 'alice'"):
        await subject.backend.start_cluster(ALICE, {})

    await subject.backend.stop_cluster(name)

    assert await subject.backend.start_cluster(ALICE, {})


@pytest.mark.parametrize("policy", [Policy(default=Caps(clusters=1))], indirect=True)
async def test_caps_are_each_users_own(subject):
    await subject.backend.start_cluster(ALICE, {})

    assert await subject.backend.start_cluster(BOB, {})


@pytest.mark.parametrize("policy", [Policy(default=Caps(workers=50))], indirect=True)
async def test_usage_counts_clusters_and_what_they_may_grow_to(subject):
    fixed = await subject.backend.start_cluster(ALICE, {})
    adaptive = await subject.backend.start_cluster(ALICE, {})
    await subject.backend.scale_cluster(fixed, 2)
    await subject.backend.adapt_cluster(adaptive, 0, 5)

    ((share, usage),) = await subject.backend.get_usage(ALICE)

    assert share.key == "user:alice"
    assert (usage.clusters, usage.workers) == (2, 7)
    assert usage.cores == 9


async def test_a_user_without_caps_has_no_shares(subject):
    assert list(await subject.backend.get_usage(ALICE)) == []


async def test_a_backend_that_is_set_up_is_ready(subject):
    await subject.backend.check_ready()
