"""What users and groups hold, summed under locks so that caps are never passed."""

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    bindparam,
    cast,
    func,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.tables import clusters, memberships
from gateway.domain.cluster import ClusterPhase
from gateway.domain.policy import Share, Usage

# Keeps our advisory locks apart from those of other programs on the database.
_LOCK_SPACE: Final = 0x6461736B

_LIVE_PHASES: Final = (ClusterPhase.PENDING, ClusterPhase.RUNNING)

_LOCK: Final = text(
    "SELECT pg_advisory_xact_lock(:space, hashtext(:share))"
).bindparams(bindparam("space", type_=Integer))


async def lock_shares(connection: AsyncConnection, shares: Iterable[Share]) -> None:
    """Let nobody else change what ``shares`` hold until the transaction ends.

    Taken in the order given, which must be the same everywhere. SQLite needs
    none: its writers exclude each other from the start.
    """
    if connection.dialect.name == "sqlite":
        return
    for share in shares:
        await connection.execute(_LOCK, {"space": _LOCK_SPACE, "share": share.key})


async def sum_shares(
    connection: AsyncConnection, shares: Sequence[Share], *, without: str | None = None
) -> tuple[tuple[Share, Usage], ...]:
    """Return what active clusters hold of each share.

    Parameters
    ----------
    without
        Name of a cluster to leave out.
    """
    if not shares:
        return ()
    count = clusters.c.reserved_workers
    query = (
        select(
            memberships.c.share,
            func.count(),
            _total(count),
            _total(
                clusters.c.scheduler_millicores + count * clusters.c.worker_millicores
            ),
            _total(
                clusters.c.scheduler_memory_bytes
                + count * clusters.c.worker_memory_bytes
            ),
        )
        .join(clusters, clusters.c.id == memberships.c.cluster_id)
        .where(
            memberships.c.share.in_([share.key for share in shares]),
            clusters.c.active,
            clusters.c.phase.in_(_LIVE_PHASES),
        )
        .group_by(memberships.c.share)
    )
    if without is not None:
        query = query.where(clusters.c.name != without)
    held = {
        key: Usage(number, workers, millicores / 1000, memory_bytes)
        for key, number, workers, millicores, memory_bytes in await connection.execute(
            query
        )
    }
    return tuple((share, held.get(share.key, Usage())) for share in shares)


def _total(expression: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL sums 64-bit integers into a decimal; these fit 64 bits again.
    return cast(func.sum(expression), BigInteger)
