import asyncio
from collections.abc import AsyncIterator
from dataclasses import fields, replace

import pytest
import pytest_asyncio

from backends.database.actions import Change
from backends.database.engine import Database, parse_url
from backends.database.lookups import list_events, list_routes, list_usage
from backends.database.migrate import migrate
from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    LeaveCause,
    WorkerRecord,
    WorkerStage,
)
from backends.database.store import NewCluster, StaleWrite, Store
from gateway.domain.cluster import ClusterEvent, ClusterPhase, EventType, PublicStatus
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import ClusterNotFound
from gateway.domain.policy import Caps, Share

pytestmark = pytest.mark.integration

# Past the end of 32 bits (W26), as every instant of ours is.
NOW_MS = 1_800_000_000_000

SPEC = ClusterSpec(
    groups=("lab",),
    options={"size": 3, "text": "ünï\u0000"},
    config=ResolvedConfig(worker_cores=0.1, extra={"a": [1, {"b": None}]}),
    api_url="http://127.0.0.1:8000/api",
)

# Every field other than its default, so that none is forgotten on the way.
WORKER = WorkerRecord(
    ordinal=7,
    created_ms=NOW_MS,
    stage=WorkerStage.STOPPING,
    started_ms=NOW_MS + 1,
    connected_ms=NOW_MS + 2,
    stopped_ms=NOW_MS + 3,
    cause=LeaveCause.FAULT,
    exit_code=-9,
    message="was ended by SIGKILL",
)
BEAT = BeatRecord(NOW_MS, 1.5, 2.5, 3, 4, 5, {"c-worker-7": "x"}, {"python": "3.11"})


@pytest_asyncio.fixture
async def database(url: str) -> AsyncIterator[Database]:
    # In a thread, as the backend does it: SQLAlchemy makes paths absolute.
    database = await asyncio.to_thread(lambda: Database(parse_url(url)))
    await migrate(database)
    yield database
    await database.close()


@pytest.fixture
def announced() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def store(database: Database, announced: list[tuple[str, int]]) -> Store:
    return Store(database, server="s1", announce=lambda *a: announced.append(a))


async def create(store: Store, name: str = "c1", owner: str = "alice") -> None:
    new = NewCluster(
        record=ClusterRecord(0, name, owner, NOW_MS),
        spec=SPEC,
        token_hash="0" * 64,
        credentials=b"sealed",
        memberships=(f"user:{owner}", "group:lab"),
    )
    await store.create(new, (), lambda _: None)


async def write(store: Store, name: str = "c1", **changes: object) -> ClusterRecord:
    seen = await store.load(name)
    return await store.commit(seen, Change(replace(seen.cluster, **changes)))


async def test_a_new_cluster_is_read_as_it_was_written(store, announced):
    await create(store)

    snapshot = await store.load("c1")

    assert snapshot.cluster == ClusterRecord(snapshot.cluster.id, "c1", "alice", NOW_MS)
    assert snapshot.cluster.id > 0
    assert snapshot.spec == SPEC
    assert snapshot.claimed_by == "s1"
    assert (snapshot.workers, snapshot.beat) == ((), None)
    assert announced == [("c1", 1)]


async def test_w26_every_field_comes_back_from_either_database(store, database):
    await create(store)
    seen = await store.load("c1")
    full = ClusterRecord(
        id=seen.cluster.id,
        name="c1",
        owner="alice",
        created_ms=NOW_MS,
        phase=ClusterPhase.RUNNING,
        active=False,
        replicas=3,
        adaptive_id="a1",
        adaptive_minimum=1,
        adaptive_maximum=9,
        next_ordinal=8,
        reserved_workers=9,
        launched=True,
        started_ms=NOW_MS + 1,
        running_ms=NOW_MS + 2,
        stopped_ms=NOW_MS + 3,
        scheduler_port=8786,
        dashboard_port=8787,
        route_host="127.0.0.1",
        is_failing=True,
        reason="SchedulerEnded",
        message="scheduler ended",
        exit_code=3,
        log_tail=("a", "b"),
        start_failures=2,
        is_silent=True,
        asked_ms=NOW_MS + 4,
        is_warned=True,
    )
    defaults = {f.name: f.default for f in fields(ClusterRecord)}
    event = ClusterEvent(NOW_MS, EventType.WARNING, "R", "m", "worker", "c1-worker-7")

    written = await store.commit(seen, Change(full, (WORKER,), (event,)))
    await store.write_beat(seen.cluster.id, BEAT)
    again = Store(database, server="s2", announce=lambda *_: None)
    snapshot = await again.load("c1")

    assert written == replace(full, version=2, generation=2)
    assert snapshot.cluster == written
    unchanged = [k for k, v in defaults.items() if getattr(written, k) == v]
    assert unchanged == []
    assert snapshot.workers == (WORKER,)
    assert snapshot.beat == BEAT
    assert await list_events(database, seen.cluster.id) == [event]


async def test_w17_of_two_writes_over_the_same_version_one_is_refused(store):
    await create(store)
    seen = await store.load("c1")

    await store.commit(seen, Change(replace(seen.cluster, replicas=1)))
    with pytest.raises(StaleWrite):
        await store.commit(seen, Change(replace(seen.cluster, replicas=2)))

    assert (await store.load("c1")).cluster.replicas == 1


async def test_many_writers_each_see_what_the_others_wrote(store, announced):
    await create(store)

    def add(now, _others):
        return Change(replace(now.cluster, replicas=now.cluster.replicas + 1)), None

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(store.change("c1", add))

    cluster = (await store.load("c1")).cluster
    assert (cluster.replicas, cluster.version, cluster.generation) == (20, 21, 21)
    assert sorted(version for _, version in announced) == list(range(1, 22))


async def test_what_a_decision_raises_undoes_everything(store):
    await create(store)

    def refuse(_now, _others):
        raise LookupError("no")

    with pytest.raises(LookupError):
        await store.change("c1", refuse, beat=BEAT)

    snapshot = await store.load("c1")
    assert (snapshot.cluster.version, snapshot.beat) == (1, None)


async def test_nothing_is_written_where_nothing_is_decided(store, announced):
    await create(store)

    record, result = await store.change("c1", lambda *_: (None, "same"), beat=BEAT)

    assert (record.version, result) == (1, "same")
    assert (await store.load("c1")).beat == BEAT
    assert announced == [("c1", 1)]


async def test_w25_a_thousand_workers_are_one_write(store):
    await create(store)
    seen = await store.load("c1")
    rows = tuple(WorkerRecord(n, NOW_MS) for n in range(1000))

    await store.commit(seen, Change(seen.cluster, rows))

    snapshot = await store.load("c1")
    assert snapshot.workers == rows
    assert snapshot.cluster.version == 2


async def test_a_worker_row_is_overwritten_and_not_doubled(store):
    await create(store)
    seen = await store.load("c1")
    await store.commit(seen, Change(seen.cluster, (WORKER,)))
    seen = await store.load("c1")

    await store.commit(seen, Change(seen.cluster, (replace(WORKER, exit_code=1),)))

    assert [w.exit_code for w in (await store.load("c1")).workers] == [1]


async def test_w27_ended_workers_and_events_do_not_grow_without_bound(store, database):
    await create(store)
    for start in range(0, 600, 100):
        seen = await store.load("c1")
        rows = tuple(
            WorkerRecord(n, 0, WorkerStage.ENDED, stopped_ms=n * 1000)
            for n in range(start, start + 100)
        )
        events = tuple(
            ClusterEvent(n, EventType.NORMAL, "R", str(n)) for n in range(100)
        )
        await store.commit(seen, Change(seen.cluster, rows, events))

    snapshot = await store.load("c1")

    assert [w.ordinal for w in snapshot.workers] == list(range(500, 600))
    kept = await list_events(database, snapshot.cluster.id)
    assert len(kept) == 200


async def test_workers_that_left_just_now_are_kept_to_be_counted(store):
    await create(store)
    seen = await store.load("c1")
    rows = tuple(
        WorkerRecord(n, 0, WorkerStage.ENDED, stopped_ms=NOW_MS) for n in range(300)
    )

    await store.commit(seen, Change(seen.cluster, rows))

    assert len((await store.load("c1")).workers) == 300


async def test_what_no_database_takes_is_replaced(store):
    await create(store)

    await write(store, message="a\x00b\ud800", log_tail=("x\x00", "y" * 10_000))

    cluster = (await store.load("c1")).cluster
    assert cluster.message == "a\ufffdb?"
    assert [len(line) for line in cluster.log_tail] == [2, 2000]


async def test_a_deleted_cluster_leaves_nothing(store, database):
    await create(store)
    seen = await store.load("c1")
    event = ClusterEvent(NOW_MS, EventType.NORMAL, "R", "m")
    await store.commit(seen, Change(seen.cluster, (WORKER,), (event,)))
    await store.write_beat(seen.cluster.id, BEAT)

    await store.delete(seen)  # over an old version: nothing
    assert await store.load("c1") is not None
    await store.delete(await store.load("c1"))

    assert await store.load("c1") is None
    assert await store.find("c1") is None
    assert await list_events(database, seen.cluster.id) == []
    with pytest.raises(ClusterNotFound):
        await store.change("c1", lambda *_: (None, None))


async def test_a_write_over_a_deleted_cluster_is_stale(store):
    await create(store)
    seen = await store.load("c1")
    await store.delete(seen)

    with pytest.raises(StaleWrite):
        await store.commit(seen, Change(seen.cluster))


async def test_two_stores_never_show_what_the_other_has_overwritten(store, database):
    other = Store(database, server="s2", announce=lambda *_: None)
    await create(store)

    for replicas in range(1, 6):
        writer, reader = (store, other) if replicas % 2 else (other, store)
        seen = await writer.load("c1")
        row = WorkerRecord(replicas, NOW_MS)
        cluster = replace(seen.cluster, replicas=replicas)
        await writer.commit(seen, Change(cluster, (row,)))
        snapshot = await reader.load("c1")
        assert snapshot.cluster.replicas == replicas
        assert len(snapshot.workers) == replicas
        (head,) = await reader.list_heads("alice", [PublicStatus.PENDING])
        assert head.cluster == snapshot.cluster
        assert (await reader.find("c1")).cluster == snapshot.cluster


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, PublicStatus.PENDING),
        ({"phase": ClusterPhase.RUNNING}, PublicStatus.RUNNING),
        ({"active": False}, PublicStatus.STOPPING),
        ({"phase": ClusterPhase.RUNNING, "active": False}, PublicStatus.STOPPING),
        ({"phase": ClusterPhase.STOPPED, "active": False}, PublicStatus.STOPPED),
        ({"phase": ClusterPhase.FAILED}, PublicStatus.FAILED),
    ],
)
async def test_a_cluster_is_listed_under_the_status_that_it_shows(store, changes, want):
    await create(store)
    if changes:
        await write(store, **changes)

    listed = {
        status for status in PublicStatus if await store.list_heads(None, [status])
    }

    assert listed == {want}


async def test_lists_are_read_in_parts_and_stay_in_order(store, database):
    names = [f"c{n}" for n in range(7)]
    for name in names:
        await create(store, name)
    cold = Store(database, server="s2", announce=lambda *_: None)
    cold_names = [h.cluster.name for h in await cold.list_heads(None, PublicStatus)]
    await write(cold, "c3", replicas=1)
    warm = await cold.list_heads(None, PublicStatus)

    assert cold_names == names
    assert [h.cluster.name for h in warm] == names
    assert [h.cluster.replicas for h in warm] == [0, 0, 0, 1, 0, 0, 0]


async def test_shares_sum_what_active_clusters_hold(store, database):
    for name, owner in (("c1", "alice"), ("c2", "alice"), ("c3", "bob")):
        await create(store, name, owner)
    await write(store, "c1", reserved_workers=3)
    await write(store, "c2", active=False, reserved_workers=50)
    await write(store, "c3", reserved_workers=10)
    shares = [
        Share("user:alice", Caps(clusters=9)),
        Share("group:lab", Caps(clusters=9)),
        Share("user:carol", Caps(clusters=9)),
    ]

    alice, lab, carol = [usage for _, usage in await list_usage(database, shares)]

    assert (alice.clusters, alice.workers) == (1, 3)
    assert alice.cores == 1.3  # thousandths are summed, not floats
    assert alice.memory_bytes == 4 * 2 * 2**30
    assert (lab.clusters, lab.workers, lab.cores) == (2, 13, 3.3)
    assert carol.clusters == 0


async def test_only_clusters_that_go_on_are_routed_to(store, database):
    for name in ("b", "a", "c"):
        await create(store, name)
        await write(store, name, scheduler_port=1, route_host="h")
    await create(store, "d")
    await write(store, "c", active=False)

    assert [route.cluster for route in await list_routes(database)] == ["a", "b"]
