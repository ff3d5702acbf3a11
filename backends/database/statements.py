"""Statements over one connection, for ``store``: how a cluster is read and written."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.actions import Change
from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    WorkerRecord,
    WorkerStage,
)
from backends.database.rows import (
    BEAT_COLUMNS,
    BEAT_FIELDS,
    CLUSTER_COLUMNS,
    SPEC_COLUMNS,
    WORKER_COLUMNS,
    WORKER_FIELDS,
    read_beat,
    read_cluster,
    read_spec,
    read_worker,
    write_beat,
    write_cluster,
    write_event,
    write_worker,
)
from backends.database.tables import beats, clusters, events, specs, workers
from backends.database.workforce import RESTART_WINDOW_MS
from gateway.domain.cluster import ClusterPhase, PublicStatus

# PostgreSQL tells the other servers at the commit; the text is `<server> <name>`.
CHANNEL: Final = "daskfleet_clusters"

LIVE_PHASES: Final = (ClusterPhase.PENDING, ClusterPhase.RUNNING)

_EVENTS_KEPT: Final = 200
_ENDED_WORKERS_KEPT: Final = 100


async def read_row(
    connection: AsyncConnection, name: str, *, lock: bool = False
) -> tuple[ClusterRecord, BeatRecord | None, str | None] | None:
    """Return a cluster's record, beat and claim; ``None`` if there is none.

    ``lock`` keeps others from writing it until the transaction ends.
    """
    query = (
        select(*CLUSTER_COLUMNS, clusters.c.claimed_by, *BEAT_COLUMNS)
        .outerjoin(beats, beats.c.cluster_id == clusters.c.id)
        .where(clusters.c.name == name)
    )
    if lock:
        query = query.with_for_update(of=clusters)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    width = len(CLUSTER_COLUMNS)
    return read_cluster(row), read_beat(tuple(row[width + 1 :])), row[width]


async def read_spec_of(connection: AsyncConnection, cluster_id: int) -> ClusterSpec:
    """Return what never changes about a cluster that exists."""
    query = select(*SPEC_COLUMNS).where(specs.c.cluster_id == cluster_id)
    return read_spec((await connection.execute(query)).one())


async def read_workers(
    connection: AsyncConnection, cluster: ClusterRecord
) -> tuple[WorkerRecord, ...] | None:
    """Return the workers of just this version, ``None`` if it has passed."""
    query = (
        select(clusters.c.version, *WORKER_COLUMNS)
        .outerjoin(workers, workers.c.cluster_id == clusters.c.id)
        .where(clusters.c.id == cluster.id)
        .order_by(workers.c.ordinal)
    )
    rows = (await connection.execute(query)).all()
    if any(version != cluster.version for version, *_ in rows):
        return None
    return tuple(read_worker(row[1:]) for row in rows if row[1] is not None)


async def read_heads(
    connection: AsyncConnection, names: Sequence[str]
) -> list[tuple[ClusterRecord, ClusterSpec]]:
    """Return record and spec of each of ``names`` that exists."""
    query = (
        select(*CLUSTER_COLUMNS, *SPEC_COLUMNS)
        .join(specs, specs.c.cluster_id == clusters.c.id)
        .where(clusters.c.name.in_(names))
    )
    width = len(CLUSTER_COLUMNS)
    rows = await connection.execute(query)
    return [(read_cluster(row), read_spec(row[width:])) for row in rows]


async def write_change(
    connection: AsyncConnection, before: ClusterRecord, change: Change
) -> bool:
    """Write ``change`` over ``before``; false if that is no longer there."""
    record = change.cluster
    query = (
        update(clusters)
        .where(clusters.c.id == record.id, clusters.c.version == before.version)
        .values(write_cluster(record, before))
    )
    if (await connection.execute(query)).rowcount != 1:
        return False
    if change.workers:
        rows = [write_worker(record.id, worker) for worker in change.workers]
        keys = ("cluster_id", "ordinal")
        await connection.execute(
            build_upsert(connection, workers, keys, WORKER_FIELDS), rows
        )
    if any(w.stage is WorkerStage.ENDED for w in change.workers):
        await _prune_workers(connection, change)
    if change.events:
        rows = [write_event(record.id, event) for event in change.events]
        await connection.execute(insert(events), rows)
        await _prune_events(connection, record.id)
    return True


async def write_beat_row(
    connection: AsyncConnection, cluster_id: int, beat: BeatRecord
) -> None:
    """Keep ``beat`` as the last one."""
    query = build_upsert(connection, beats, ("cluster_id",), BEAT_FIELDS)
    await connection.execute(query, write_beat(cluster_id, beat))


async def notify(connection: AsyncConnection, server: str, name: str) -> None:
    """Tell the other servers, at the commit; on SQLite they find out themselves."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_notify(CHANNEL, f"{server} {name}")))


def build_upsert(
    connection: AsyncConnection,
    table: Table,
    keys: Sequence[str],
    fields: Iterable[str],
) -> Any:  # noqa: ANN401 - each dialect has its own class for it
    """Return an insert that overwrites ``fields`` of a row with the same ``keys``."""
    query = _insert(connection, table)
    changed = {f: query.excluded[f] for f in fields if f not in keys}
    return query.on_conflict_do_update(index_elements=list(keys), set_=changed)


def build_first(connection: AsyncConnection, table: Table) -> Any:  # noqa: ANN401 - likewise
    """Return an insert that does nothing if there is a row with the same key.

    It waits for another's that is not yet committed.
    """
    return _insert(connection, table).on_conflict_do_nothing()


def has_status(status: PublicStatus) -> ColumnElement[bool]:
    """Return the condition for clusters in ``status``.

    The other way round as `gateway.domain.cluster.derive_status`.
    """
    if status is PublicStatus.STOPPING:
        return and_(clusters.c.phase.in_(LIVE_PHASES), ~clusters.c.active)
    phase = clusters.c.phase == ClusterPhase(status.title())
    return phase if status.is_terminal else and_(phase, clusters.c.active)


def _insert(connection: AsyncConnection, table: Table) -> Any:  # noqa: ANN401 - likewise
    is_sqlite = connection.dialect.name == "sqlite"
    return sqlite.insert(table) if is_sqlite else postgresql.insert(table)


async def _prune_workers(connection: AsyncConnection, change: Change) -> None:
    # The planner counts those that left within its window.
    ended_ms = max(w.stopped_ms or 0 for w in change.workers)
    ended = and_(
        workers.c.cluster_id == change.cluster.id,
        workers.c.stage == WorkerStage.ENDED,
    )
    kept = (
        select(workers.c.ordinal)
        .where(ended)
        .order_by(workers.c.ordinal.desc())
        .limit(_ENDED_WORKERS_KEPT)
    )
    await connection.execute(
        delete(workers).where(
            ended,
            or_(
                workers.c.stopped_ms.is_(None),
                workers.c.stopped_ms < ended_ms - RESTART_WINDOW_MS,
            ),
            workers.c.ordinal.not_in(kept.scalar_subquery()),
        )
    )


async def _prune_events(connection: AsyncConnection, cluster_id: int) -> None:
    kept = (
        select(events.c.id)
        .where(events.c.cluster_id == cluster_id)
        .order_by(events.c.id.desc())
        .limit(_EVENTS_KEPT)
    )
    await connection.execute(
        delete(events).where(
            events.c.cluster_id == cluster_id,
            events.c.id.not_in(kept.scalar_subquery()),
        )
    )
