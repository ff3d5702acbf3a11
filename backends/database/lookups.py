"""Reads that are of no one cluster, or of what hangs on it."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Select, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.engine import Database
from backends.database.launcher import JobRef, Role
from backends.database.leases import now_ms
from backends.database.records import SCHEDULER_JOB, WorkerStage
from backends.database.routes import Route
from backends.database.rows import read_event
from backends.database.shares import sum_shares
from backends.database.statements import LIVE_PHASES
from backends.database.tables import clusters, events, servers, workers
from gateway.domain.cluster import ClusterEvent
from gateway.domain.names import format_worker_name
from gateway.domain.policy import Share, Usage

_ROUTE_COLUMNS: Final = (
    clusters.c.name,
    clusters.c.route_host,
    clusters.c.scheduler_port,
    clusters.c.dashboard_port,
)
_DIGEST: Final = select(
    func.count(),
    func.coalesce(func.max(clusters.c.id), 0),
    func.coalesce(func.sum(clusters.c.version), 0),
).select_from(clusters)
_EVENT_COLUMNS: Final = (
    events.c.time_ms,
    events.c.type,
    events.c.reason,
    events.c.message,
    events.c.component,
    events.c.worker,
)


async def list_events(database: Database, cluster_id: int) -> list[ClusterEvent]:
    """Return the events that are kept of a cluster, oldest first."""
    query = (
        select(*_EVENT_COLUMNS)
        .where(events.c.cluster_id == cluster_id)
        .order_by(events.c.id)
    )

    async def work(connection: AsyncConnection) -> list[ClusterEvent]:
        return [read_event(row) for row in await connection.execute(query)]

    return await database.read(work)


async def list_routes(database: Database) -> list[Route]:
    """Return the routes of all clusters that have one, by name.

    Asked after each change of any cluster, and so reads nothing else; see
    `backends.database.records.ClusterRecord.route`.
    """
    query = (
        select(*_ROUTE_COLUMNS)
        .where(
            clusters.c.phase.in_(LIVE_PHASES),
            clusters.c.active,
            clusters.c.route_host.is_not(None),
            clusters.c.scheduler_port.is_not(None),
        )
        .order_by(clusters.c.name)
    )

    async def work(connection: AsyncConnection) -> list[Route]:
        return [Route(*row) for row in await connection.execute(query)]

    return await database.read(work)


async def list_versions(database: Database) -> dict[str, int]:
    """Return the version of every cluster, by name."""
    query = select(clusters.c.name, clusters.c.version)

    async def work(connection: AsyncConnection) -> dict[str, int]:
        return dict(map(tuple, await connection.execute(query)))

    return await database.read(work)


async def read_digest(database: Database) -> tuple[int, ...]:
    """Return numbers that differ after a cluster was made, changed or deleted.

    So cheap that it can be asked each second: an index holds it all. Ids never
    come back and versions only grow, so equal numbers mean equal records.
    """

    async def work(connection: AsyncConnection) -> tuple[int, ...]:
        return tuple(int(n) for n in (await connection.execute(_DIGEST)).one())

    return await database.read(work)


async def list_live(database: Database) -> list[str]:
    """Return names of all clusters that have not ended."""
    query = select(clusters.c.name).where(clusters.c.phase.in_(LIVE_PHASES))
    return await _list_names(database, query)


async def list_unclaimed(database: Database) -> list[str]:
    """Return names of live clusters that no living server reconciles."""
    owner = and_(servers.c.id == clusters.c.claimed_by, servers.c.until_ms > now_ms())
    query = select(clusters.c.name).where(
        clusters.c.phase.in_(LIVE_PHASES), ~select(servers.c.id).where(owner).exists()
    )
    return await _list_names(database, query)


async def list_expired(database: Database, before_ms: int) -> list[str]:
    """Return names of clusters that ended at ``before_ms`` or earlier."""
    query = select(clusters.c.name).where(
        clusters.c.phase.not_in(LIVE_PHASES), clusters.c.stopped_ms <= before_ms
    )
    return await _list_names(database, query)


async def _list_names(database: Database, query: Select[tuple[str]]) -> list[str]:
    async def work(connection: AsyncConnection) -> list[str]:
        return list(await connection.scalars(query))

    return await database.read(work)


async def read_version(database: Database, name: str) -> int | None:
    """Return a cluster's version, ``None`` if there is no such cluster."""
    query = select(clusters.c.version).where(clusters.c.name == name)

    async def work(connection: AsyncConnection) -> int | None:
        version: int | None = await connection.scalar(query)
        return version

    return await database.read(work)


async def list_jobs(database: Database) -> tuple[set[JobRef], set[str]]:
    """Return all jobs that may run, and the names of all clusters, ended ones too."""
    heads = select(clusters.c.name, clusters.c.phase)
    rows = (
        select(clusters.c.name, workers.c.ordinal)
        .join(workers, workers.c.cluster_id == clusters.c.id)
        .where(clusters.c.phase.in_(LIVE_PHASES), workers.c.stage != WorkerStage.ENDED)
    )

    async def work(connection: AsyncConnection) -> tuple[set[JobRef], set[str]]:
        found = (await connection.execute(heads)).all()
        names = {name for name, _ in found}
        jobs = {
            JobRef(name, Role.SCHEDULER, SCHEDULER_JOB)
            for name, phase in found
            if phase in LIVE_PHASES
        }
        for name, ordinal in await connection.execute(rows):
            worker = format_worker_name(name, ordinal)
            jobs.add(JobRef(name, Role.WORKER, worker))
        return jobs, names

    return await database.read(work)


async def list_usage(
    database: Database, shares: Sequence[Share]
) -> Sequence[tuple[Share, Usage]]:
    """Return what each of ``shares`` holds now."""

    async def work(connection: AsyncConnection) -> Sequence[tuple[Share, Usage]]:
        return await sum_shares(connection, shares)

    return await database.read(work)
