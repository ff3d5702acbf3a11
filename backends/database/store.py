"""Clusters in the database: read whole, written by compare-and-set.

Nothing is kept in memory that could run ahead of the database: what is cached
is decoded rows under their version, and it is used only if the version that
was just read is the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from sqlalchemy import delete, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.actions import Change
from backends.database.engine import Database
from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    Snapshot,
    WorkerRecord,
    bump_versions,
)
from backends.database.rows import write_cluster, write_shape, write_spec
from backends.database.shares import lock_shares, sum_shares
from backends.database.statements import (
    has_status,
    notify,
    read_heads,
    read_row,
    read_spec_of,
    read_workers,
    write_beat_row,
    write_change,
)
from backends.database.tables import clusters, memberships, specs
from gateway.aio.limits import ExpiringMap
from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import ClusterNotFound
from gateway.domain.policy import Share, Usage

R = TypeVar("R")
Holdings = Sequence[tuple[Share, Usage]]
Decide = Callable[[Snapshot, Holdings], tuple[Change | None, R]]

# Decoded clusters that are kept: on the order of what one server serves.
_CACHED: Final = 5000
# SQLite takes 32,766 parameters in a statement; this is plenty, and short.
_NAMES_PER_QUERY: Final = 500


class StaleWrite(Exception):
    """Somebody else has written the cluster since it was read."""


@dataclass(frozen=True, slots=True)
class NewCluster:
    """A cluster to be accepted.

    Parameters
    ----------
    token_hash
        See `backends.database.keyring.hash_token`.
    credentials
        Sealed.
    memberships
        Keys of all shares that it counts in, capped or not.
    """

    record: ClusterRecord
    spec: ClusterSpec
    token_hash: str = field(repr=False)
    credentials: bytes = field(repr=False)
    memberships: tuple[str, ...]


class Store:
    """Reads and writes clusters.

    Parameters
    ----------
    server
        Id of this server.
    announce
        Called with name and version after each commit of this server.
    """

    def __init__(
        self, database: Database, *, server: str, announce: Callable[[str, int], None]
    ) -> None:
        self._database = database
        self._server = server
        self._announce = announce
        self._specs = ExpiringMap[int, ClusterSpec](_CACHED)
        self._heads = ExpiringMap[str, Snapshot](_CACHED)
        self._workers = ExpiringMap[str, tuple[int, tuple[WorkerRecord, ...]]](_CACHED)

    async def create(
        self,
        new: NewCluster,
        shares: Sequence[Share],
        check: Callable[[Holdings], None],
    ) -> None:
        """Write a new cluster, unless ``check`` raises for what ``shares`` hold."""

        async def work(connection: AsyncConnection) -> None:
            await lock_shares(connection, shares)
            check(await sum_shares(connection, shares))
            row = {
                **write_cluster(new.record),
                **write_shape(new.spec),
                "claimed_by": self._server,
            }
            del row["id"]  # the database counts
            query = insert(clusters).values(row).returning(clusters.c.id)
            key = (await connection.execute(query)).scalar_one()
            spec = {
                **write_spec(new.spec),
                "cluster_id": key,
                "token_hash": new.token_hash,
                "credentials": new.credentials,
            }
            await connection.execute(insert(specs).values(spec))
            members = [{"share": s, "cluster_id": key} for s in new.memberships]
            await connection.execute(insert(memberships), members)
            await notify(connection, self._server, new.record.name)

        await self._database.write(work)
        self._announce(new.record.name, new.record.version)

    async def load(self, name: str) -> Snapshot | None:
        """Return all of a cluster as of one instant, ``None`` if there is none."""

        async def work(connection: AsyncConnection) -> Snapshot | None:
            return await self._read(connection, name)

        return await self._database.read(work)

    async def find(self, name: str) -> Snapshot | None:
        """Return a cluster without its workers, ``None`` if there is none."""

        async def work(connection: AsyncConnection) -> Snapshot | None:
            return await self._read_head(connection, name)

        return await self._database.read(work)

    async def list_heads(
        self, owner: str | None, statuses: Iterable[PublicStatus]
    ) -> list[Snapshot]:
        """Return clusters without workers and beats, oldest first."""
        wanted = [has_status(status) for status in statuses]
        if not wanted:
            return []
        query = select(clusters.c.name, clusters.c.version).where(or_(*wanted))
        if owner is not None:
            query = query.where(clusters.c.owner == owner)
        query = query.order_by(clusters.c.id)

        async def work(connection: AsyncConnection) -> list[Snapshot]:
            versions = (await connection.execute(query)).all()
            found = {}
            for name, version in versions:
                head = self._heads.get(name)
                if head is not None and head.cluster.version == version:
                    found[name] = head
            missing = [name for name, _ in versions if name not in found]
            for start in range(0, len(missing), _NAMES_PER_QUERY):
                names = missing[start : start + _NAMES_PER_QUERY]
                for record, spec in await read_heads(connection, names):
                    found[record.name] = self._keep_head(record, spec)
            return [found[name] for name, _ in versions if name in found]

        return await self._database.read(work)

    async def change(
        self,
        name: str,
        decide: Decide[R],
        *,
        shares: Sequence[Share] = (),
        beat: BeatRecord | None = None,
    ) -> tuple[ClusterRecord, R]:
        """Write what ``decide`` makes of a cluster, alone with it.

        Parameters
        ----------
        decide
            Takes the cluster and what its owner's *other* clusters hold of
            ``shares``; returns the change, if any, and whatever the caller
            wants. What it raises undoes everything. It may be called twice.
        beat
            Written with it.

        Returns
        -------
        tuple
            The record as it now is, and the second of what ``decide`` returned.

        Raises
        ------
        ClusterNotFound
            If there is no such cluster.
        """

        async def work(
            connection: AsyncConnection,
        ) -> tuple[ClusterRecord, R, bool]:
            await lock_shares(connection, shares)
            snapshot = await self._read(connection, name, lock=True)
            if snapshot is None:
                raise ClusterNotFound(name)
            before = snapshot.cluster
            others = await sum_shares(connection, shares, without=name)
            change, result = decide(snapshot, others)
            if beat is not None:
                await write_beat_row(connection, before.id, beat)
            if change is None:
                return before, result, False
            after = bump_versions(before, change.cluster)
            if not await write_change(
                connection, before, replace(change, cluster=after)
            ):
                raise StaleWrite(name)
            await notify(connection, self._server, name)
            return after, result, True

        record, result, is_changed = await self._database.write(work)
        if is_changed:
            self._announce(name, record.version)
        return record, result

    async def commit(self, seen: Snapshot, change: Change) -> ClusterRecord:
        """Write ``change`` if the cluster is still as it was ``seen``.

        Raises
        ------
        StaleWrite
            If it is not; nothing was written.
        """
        name = seen.cluster.name

        def decide(now: Snapshot, _others: Holdings) -> tuple[Change, None]:
            if now.cluster.version != seen.cluster.version:
                raise StaleWrite(name)
            return change, None

        try:
            record, _ = await self.change(name, decide)
        except ClusterNotFound as error:
            raise StaleWrite(name) from error
        return record

    async def write_beat(self, cluster_id: int, beat: BeatRecord) -> None:
        """Keep ``beat`` as the last one; that is no change of the cluster."""

        async def work(connection: AsyncConnection) -> None:
            await write_beat_row(connection, cluster_id, beat)

        await self._database.write(work)

    async def delete(self, seen: Snapshot) -> None:
        """Delete a cluster with all its rows, if it is still as it was ``seen``."""
        record = seen.cluster
        query = delete(clusters).where(
            clusters.c.id == record.id, clusters.c.version == record.version
        )

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(query)
            await notify(connection, self._server, record.name)

        await self._database.write(work)
        self._heads.pop(record.name)
        self._workers.pop(record.name)
        self._announce(record.name, record.version + 1)

    async def _read(
        self, connection: AsyncConnection, name: str, *, lock: bool = False
    ) -> Snapshot | None:
        while True:
            head = await self._read_head(connection, name, lock=lock)
            if head is None:
                return None
            version = head.cluster.version
            cached = self._workers.get(name)
            if cached is not None and cached[0] == version:
                return replace(head, workers=cached[1])
            members = await read_workers(connection, head.cluster)
            if members is not None:
                self._workers.put(name, (version, members))
                return replace(head, workers=members)
            # Written between the two statements: look again.

    async def _read_head(
        self, connection: AsyncConnection, name: str, *, lock: bool = False
    ) -> Snapshot | None:
        row = await read_row(connection, name, lock=lock)
        if row is None:
            return None
        record, beat, claimed_by = row
        spec = self._specs.get(record.id)
        if spec is None:
            spec = await read_spec_of(connection, record.id)
        head = self._keep_head(record, spec)
        return replace(head, beat=beat, claimed_by=claimed_by)

    def _keep_head(self, record: ClusterRecord, spec: ClusterSpec) -> Snapshot:
        head = Snapshot(record, spec)
        self._specs.put(record.id, spec)
        self._heads.put(record.name, head)
        return head
