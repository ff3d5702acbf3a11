"""Clusters' credentials: made, opened, sealed anew, renewed; tokens compared.

Sealing itself is the vault's, certificates are `gateway.credentials`'.
"""

import asyncio
import hashlib
import hmac
from typing import Final

import structlog
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.database.engine import Database
from backends.database.records import ClusterRecord
from backends.database.statements import build_first
from backends.database.tables import clusters, settings, specs
from backends.database.vault import Vault
from gateway.aio.limits import ExpiringMap
from gateway.credentials import make_credentials, needs_renewal, renew_client
from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import ClusterNotFound
from gateway.ports import Clock

log = structlog.get_logger(__name__)

_MARK: Final = "vault_canary"
# Each takes a fraction of a millisecond to open and seal.
_SEALED_AT_ONCE: Final = 20
# Making keys is pure computation: more at once only get in each other's way.
_MAKERS: Final = 2
# A client asks for its keys again and again while it waits.
_CLIENTS_KEPT: Final = 2000
_CLIENTS_KEPT_S: Final = 300.0


class Keyring:
    """Gives out the secrets of clusters.

    Parameters
    ----------
    database
        Keeps them sealed.
    vault
        Seals and opens them.
    clock
        Tells when a client's certificate is to be renewed.
    """

    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database = database
        self._vault = vault
        self._clock = clock
        self._clients = ExpiringMap[int, KeyPair](
            _CLIENTS_KEPT, _CLIENTS_KEPT_S, monotonic=clock.monotonic
        )
        self._makers = asyncio.Semaphore(_MAKERS)

    async def check_keys(self) -> None:
        """Raise `ConfigError` if this server's keys do not fit the database.

        The first server leaves a mark in it by which the others know.
        """
        query = select(settings.c.value).where(settings.c.key == _MARK)

        async def work(connection: AsyncConnection) -> bytes:
            found: bytes | None = await connection.scalar(query)
            if found is not None:
                return found
            mark = {"key": _MARK, "value": self._vault.make_canary()}
            # Several servers may be the first at once.
            await connection.execute(build_first(connection, settings).values(mark))
            kept: bytes = (await connection.execute(query)).scalar_one()
            return kept

        self._vault.check_canary(await self._database.write(work))

    async def rotate(self) -> None:
        """Seal anew whatever an old key has sealed; returns once nothing is left.

        The mark goes last: if it is the present key's, so is everything.
        """
        mark = await self._read_mark()
        if mark is None or self._vault.is_current(mark):
            return
        last, count = 0, 0
        while found := await self._list_sealed(last):
            for cluster_id, sealed in found:
                if not self._vault.is_current(sealed):
                    fresh = self._vault.seal(self._vault.open(sealed))
                    count += await self._replace(cluster_id, sealed, fresh)
            last, _ = found[-1]
        query = (
            update(settings)
            .where(settings.c.key == _MARK, settings.c.value == mark)
            .values(value=self._vault.make_canary())
        )

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(query)

        await self._database.write(work)
        log.info("secrets sealed with the first key; older ones may go", clusters=count)

    async def make(self, cluster_name: str) -> Credentials:
        """Return new credentials; takes some milliseconds in a thread."""
        async with self._makers:
            now = self._clock.now()
            return await asyncio.to_thread(make_credentials, cluster_name, now)

    def seal(self, credentials: Credentials) -> bytes:
        """Return ``credentials`` as the database may keep them."""
        return self._vault.seal(credentials)

    async def open_all(self, cluster: ClusterRecord) -> Credentials:
        """Return all credentials of ``cluster``.

        What an old key has sealed is sealed with the present one.

        Raises
        ------
        ClusterNotFound
            If it has just been deleted.
        """
        sealed = await self._read(cluster)
        credentials = self._vault.open(sealed)
        if not self._vault.is_current(sealed):
            await self._replace(cluster.id, sealed, self._vault.seal(credentials))
        return credentials

    async def open_client(self, cluster: ClusterRecord) -> tuple[KeyPair, bool]:
        """Return what a client needs, and whether it has just been renewed.

        Raises
        ------
        ClusterNotFound
            If it has just been deleted.
        """
        kept = self._clients.get(cluster.id)
        if kept is not None:
            return kept, False
        sealed = await self._read(cluster)
        credentials = self._vault.open(sealed)
        now = self._clock.now()
        is_renewed = needs_renewal(credentials, now)
        if is_renewed:
            async with self._makers:
                fresh = await asyncio.to_thread(
                    renew_client, credentials, cluster.name, now
                )
            if not await self._replace(cluster.id, sealed, self._vault.seal(fresh)):
                return await self.open_client(cluster)  # another server was first
            credentials = fresh
        self._clients.put(cluster.id, credentials.client)
        return credentials.client, is_renewed

    async def check_token(self, name: str, token: str) -> bool:
        """Return whether ``token`` is that of cluster ``name``, in constant time."""
        query = (
            select(specs.c.token_hash)
            .join(clusters, clusters.c.id == specs.c.cluster_id)
            .where(clusters.c.name == name)
        )

        async def work(connection: AsyncConnection) -> str | None:
            found: str | None = await connection.scalar(query)
            return found

        known = await self._database.read(work)
        is_same = hmac.compare_digest(hash_token(token), known or hash_token(""))
        return is_same and known is not None

    async def _read(self, cluster: ClusterRecord) -> bytes:
        query = select(specs.c.credentials).where(specs.c.cluster_id == cluster.id)

        async def work(connection: AsyncConnection) -> bytes | None:
            found: bytes | None = await connection.scalar(query)
            return found

        sealed = await self._database.read(work)
        if sealed is None:
            raise ClusterNotFound(cluster.name)
        return sealed

    async def _read_mark(self) -> bytes | None:
        query = select(settings.c.value).where(settings.c.key == _MARK)

        async def work(connection: AsyncConnection) -> bytes | None:
            found: bytes | None = await connection.scalar(query)
            return found

        return await self._database.read(work)

    async def _list_sealed(self, after: int) -> list[tuple[int, bytes]]:
        query = (
            select(specs.c.cluster_id, specs.c.credentials)
            .where(specs.c.cluster_id > after)
            .order_by(specs.c.cluster_id)
            .limit(_SEALED_AT_ONCE)
        )

        async def work(connection: AsyncConnection) -> list[tuple[int, bytes]]:
            return [(key, sealed) for key, sealed in await connection.execute(query)]

        return await self._database.read(work)

    async def _replace(self, cluster_id: int, old: bytes, new: bytes) -> bool:
        query = (
            update(specs)
            .where(specs.c.cluster_id == cluster_id, specs.c.credentials == old)
            .values(credentials=new)
        )

        async def work(connection: AsyncConnection) -> bool:
            return (await connection.execute(query)).rowcount == 1

        return await self._database.write(work)


def hash_token(token: str) -> str:
    """Return what is kept of a token: 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
