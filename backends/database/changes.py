"""Learn of changes that other servers have made.

PostgreSQL tells at each commit. A look at all versions each second finds what
that has missed, and is all there is on SQLite. Who is told, looks for itself.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from backends.database.engine import Database
from backends.database.lookups import list_versions, read_digest
from backends.database.outage import Outage
from backends.database.statements import CHANNEL
from gateway.domain.errors import Unavailable

log = structlog.get_logger(__name__)

# A connection on which nothing is heard is asked whether it still lives.
_PING_S: Final = 15.0


class ChangeFeed:
    """Calls ``notice`` with the name of each cluster that has changed.

    Parameters
    ----------
    server
        Id of this server, whose own changes are known.
    notice
        Called on the event loop; late and needless calls must be harmless.
    period_s
        Seconds between two looks at all versions.
    """

    def __init__(
        self,
        database: Database,
        *,
        server: str,
        notice: Callable[[str], None],
        outage: Outage,
        period_s: float = 1.0,
    ) -> None:
        self._database = database
        self._server = server
        self._notice = notice
        self._outage = outage
        self._period_s = period_s
        self._versions: dict[str, int] = {}
        self._digest: tuple[int, ...] | None = None

    def note(self, name: str, version: int) -> None:
        """Take note of a change of our own, which needs no notice."""
        if self._versions.get(name, 0) < version:
            self._versions[name] = version

    async def look(self) -> None:
        """Notice every cluster whose version is another than at the last look."""
        digest = await read_digest(self._database)
        if digest == self._digest:
            return
        versions = await list_versions(self._database)
        before = self._versions
        changed = [n for n, v in versions.items() if before.get(n, 0) < v]
        gone = [name for name in before if name not in versions]
        self._versions = versions
        self._digest = digest
        for name in (*changed, *gone):
            self._notice(name)

    async def poll(self) -> None:
        """Look for ever, through any outage."""
        while True:
            try:
                await self.look()
            except Unavailable as error:
                self._outage.note(error)
            else:
                self._outage.note_answer()
            await asyncio.sleep(self._period_s)

    async def listen(self) -> None:
        """Notice what PostgreSQL tells, until the connection is lost.

        Returns then, or raises; the caller starts it again.
        """
        connection = await self._database.connect()
        try:
            raw = await connection.get_raw_connection()
            driver: Any = raw.driver_connection
            await driver.add_listener(CHANNEL, self._hear)
            try:
                while True:
                    await asyncio.sleep(_PING_S)
                    await driver.fetchval("SELECT 1")
            finally:
                # Not to the pool: it would go on listening there.
                await connection.invalidate()
        finally:
            await connection.close()

    def _hear(self, _driver: object, _pid: int, _channel: str, text: str) -> None:
        server, _, name = text.partition(" ")
        if server != self._server:
            self._notice(name)
