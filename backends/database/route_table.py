"""Keep the proxy's table as the database has it. Every server does so by itself."""

import asyncio
from typing import Final

import structlog

from backends.database.engine import Database
from backends.database.leases import Lease
from backends.database.lookups import list_routes
from backends.database.routes import Route, Routes

log = structlog.get_logger(__name__)

# Changes that come together are published together; a table of 1,000 takes some
# milliseconds to read. Who waits for a route does not wait for this.
_PAUSE_S: Final = 0.05
_PAUSE_PER_ROUTE_S: Final = 0.0005


class RouteTable:
    """Publishes all routes and the gateways that serve, each time they differ.

    Parameters
    ----------
    lease
        Knows the gateways.
    """

    def __init__(self, database: Database, routes: Routes, lease: Lease) -> None:
        self._database = database
        self._routes = routes
        self._lease = lease
        self._published: tuple[list[Route], tuple[str, ...]] | None = None
        self._is_shared = False
        self._is_dirty = asyncio.Event()
        self._lock = asyncio.Lock()

    def wake(self) -> None:
        """Say that a cluster has changed."""
        self._is_dirty.set()

    def recheck(self) -> None:
        """Say that a gateway may have come or gone.

        Gateways of one machine share the proxy's table, and one that had stopped
        for a while may have written an old one: what stands there is compared.
        """
        if self._is_shared:
            self._published = None
        self._is_dirty.set()

    async def refresh(self) -> None:
        """Return once the table is no older than this call."""
        async with self._lock:
            gateways = await self._lease.list_gateways()
            wanted = await list_routes(self._database), gateways
            self._is_shared |= len(gateways) > 1
            if wanted != self._published:
                await self._routes.publish(*wanted)
                self._published = wanted
                log.debug(
                    "routes published", routes=len(wanted[0]), gateways=len(gateways)
                )

    async def leave(self) -> None:
        """Take this gateway, whose lease was given back, out of the table.

        The last one stays in it: its successor usually has the same address.
        """
        if await self._lease.list_gateways():
            await self.refresh()

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
            routes = len(self._published[0]) if self._published else 0
            await asyncio.sleep(max(_PAUSE_S, _PAUSE_PER_ROUTE_S * routes))
