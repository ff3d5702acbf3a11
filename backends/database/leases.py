"""Which server reconciles which cluster: a lease per server, a claim per cluster.

A claim counts only while its server's lease does, so that one row is renewed
however many clusters there are. Claims keep servers from doing work twice; that
nothing goes wrong if they do is owed to compare-and-set and idempotent starts.
"""

import asyncio
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from backends.database.engine import Database
from backends.database.identity import ProcessIdentity
from backends.database.records import Snapshot
from backends.database.statements import LIVE_PHASES, build_upsert
from backends.database.tables import clusters, servers
from gateway.domain.addresses import is_loopback_url
from gateway.ports import Clock

# Rows of servers that are long dead have no meaning; a few are kept for people.
_FORGET_AFTER_MS: Final = 3_600_000


class now_ms(FunctionElement[int]):  # noqa: N801 - an SQL function
    """The database's own clock, in milliseconds since the epoch."""

    type: TypeEngine[int] = BigInteger()
    inherit_cache: bool | None = True


@compiles(now_ms, "postgresql")
def _format_postgresql(_element: now_ms, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401 - SQLAlchemy's signature
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "sqlite")
def _format_sqlite(_element: now_ms, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401 - SQLAlchemy's signature
    # Days since noon of the first day of the Julian period, to 1970.
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


class Lease:
    """The right of this server to act, for as long as it is renewed.

    Parameters
    ----------
    server
        Id of this server, never used before.
    lease_s
        How long the others wait for a server that is silent.
    clock
        Only differences count.
    url
        Where the proxy reaches this server; empty if nobody need know.
    """

    def __init__(
        self,
        database: Database,
        *,
        server: str,
        lease_s: float,
        clock: Clock,
        url: str = "",
    ) -> None:
        self._database = database
        self._server = server
        self._lease_s = lease_s
        self._url = url
        self._clock = clock
        self._until = float("-inf")
        self._is_given_back = False
        self._process: ProcessIdentity | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the others still wait for this server.

        Judged by this machine's clock, from before the renewal was sent: it
        ends here first. A process that was stopped and goes on sees it.
        """
        return self._clock.monotonic() < self._until

    async def renew(self) -> None:
        """Prolong it by ``lease_s`` from now; the first time it is taken."""
        if self._process is None:
            self._process = await asyncio.to_thread(ProcessIdentity.of_this_process)
        process = self._process.format()
        asked_at = self._clock.monotonic()
        until_ms = now_ms() + round(self._lease_s * 1000)

        async def work(connection: AsyncConnection) -> None:
            query = build_upsert(connection, servers, ("id",), ("until_ms",))
            values = {
                "id": self._server,
                "until_ms": until_ms,
                "process": process,
                "url": self._url,
            }
            await connection.execute(query.values(values))

        await self._database.write(work)
        self._until = asked_at + self._lease_s

    async def release(self) -> None:
        """Give it back, so that the others need not wait."""
        self._until = float("-inf")
        self._is_given_back = True
        await self._delete_servers([self._server])

    async def list_gateways(self) -> tuple[str, ...]:
        """Return where the proxy reaches each server that lives, in order.

        This one is among them until it has given its lease back, even if the
        lease is over: it asks, so it lives. Another machine's loopback is not.
        """
        query = select(servers.c.url, servers.c.process).where(
            servers.c.id != self._server,
            servers.c.until_ms > now_ms(),
            servers.c.url != "",
        )

        async def work(connection: AsyncConnection) -> list[Any]:
            return list(await connection.execute(query))

        found = await self._database.read(work)
        urls = {url for url, process in found if self._reaches(url, process)}
        if self._url and not self._is_given_back:
            urls.add(self._url)
        return tuple(sorted(urls))

    async def drop_dead_servers(self) -> None:
        """Delete leases of servers that have surely ended.

        Those are processes of this machine that no longer run, such as the one
        that this process replaces, and whatever has been silent for an hour.
        """
        query = select(
            servers.c.id,
            servers.c.process,
            servers.c.until_ms < now_ms() - _FORGET_AFTER_MS,
        ).where(servers.c.id != self._server)

        async def work(connection: AsyncConnection) -> list[Any]:
            return list(await connection.execute(query))

        found = await self._database.read(work)
        if found:
            dead = await asyncio.to_thread(self._find_dead, found)
            await self._delete_servers(dead)

    async def claim_free(self) -> None:
        """Take every live cluster that no living server reconciles, in one write.

        After a restart that is one commit instead of one for each cluster.
        """
        query = (
            update(clusters)
            .where(clusters.c.phase.in_(LIVE_PHASES), self._is_free())
            .values(claimed_by=self._server)
        )

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(query)

        if self.is_valid:
            await self._database.write(work)

    async def claim(self, seen: Snapshot) -> bool:
        """Return whether this server may reconcile the cluster; take it if free."""
        if not self.is_valid:
            return False
        if seen.claimed_by == self._server:
            return True
        if seen.claimed_by is not None and await self._is_living(seen.claimed_by):
            return False
        query = (
            update(clusters)
            .where(clusters.c.id == seen.cluster.id, self._is_free())
            .values(claimed_by=self._server)
        )

        async def work(connection: AsyncConnection) -> bool:
            return (await connection.execute(query)).rowcount == 1

        return await self._database.write(work)

    def _is_free(self) -> ColumnElement[bool]:
        living = select(servers.c.id).where(servers.c.until_ms > now_ms())
        return or_(
            clusters.c.claimed_by.is_(None),
            clusters.c.claimed_by == self._server,
            clusters.c.claimed_by.not_in(living),
        )

    async def _is_living(self, server: str) -> bool:
        query = select(servers.c.id).where(
            servers.c.id == server, servers.c.until_ms > now_ms()
        )

        async def work(connection: AsyncConnection) -> bool:
            return await connection.scalar(query) is not None

        return await self._database.read(work)

    def _reaches(self, url: str, text: str) -> bool:
        theirs = ProcessIdentity.parse(text)
        is_here = (
            theirs is not None
            and self._process is not None
            and theirs.machine == self._process.machine
        )
        return is_here or not is_loopback_url(url)

    def _find_dead(self, found: list[Any]) -> list[str]:
        here = self._process or ProcessIdentity.of_this_process()
        dead = []
        for key, text, is_long_silent in found:
            process = ProcessIdentity.parse(text)
            if is_long_silent or (process is not None and process.is_gone(here)):
                dead.append(key)
        return dead

    async def _delete_servers(self, ids: list[str]) -> None:
        if not ids:
            return

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(servers).where(servers.c.id.in_(ids)))

        await self._database.write(work)
