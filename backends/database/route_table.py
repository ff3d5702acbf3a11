"""Keep the proxy's table as the database has it. Every server does so by itself."""

import asyncio
from typing import Final

import structlog

from backends.database.engine import Database
from backends.database.lookups import list_routes
from backends.database.routes import Route, Routes

log = structlog.get_logger(__name__)

# Changes that come together are published together.
_PAUSE_S: Final = 0.05


class RouteTable:
    """Publishes the routes of all running clusters, each time they differ."""

    def __init__(self, database: Database, routes: Routes) -> None:
        self._database = database
        self._routes = routes
        self._published: list[Route] | None = None
        self._is_dirty = asyncio.Event()
        self._lock = asyncio.Lock()

    def wake(self) -> None:
        """Say that a cluster has changed."""
        self._is_dirty.set()

    async def refresh(self) -> None:
        """Return once the table is no older than this call."""
        async with self._lock:
            wanted = await list_routes(self._database)
            if wanted != self._published:
                await self._routes.publish(wanted)
                self._published = wanted
                log.debug("routes published", routes=len(wanted))

    async def run(self) -> None:
        """Refresh after each wake, for ever; what fails is for the caller to retry."""
        while True:
            await self._is_dirty.wait()
            self._is_dirty.clear()
            try:
                await self.refresh()
            except BaseException:
                self._is_dirty.set()
                raise
            await asyncio.sleep(_PAUSE_S)
