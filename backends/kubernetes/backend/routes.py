"""``GET /routes``: the proxy's table, for Traefik's HTTP provider.

No protocol is between the two: Traefik asks again and again. The request of a
connection that has the newest table is held until there is another. An answer
other than 200 leaves a proxy with the table that it has.
"""

import asyncio
import hmac
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct, field

from backends.database.routes import Route
from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import KubeError
from backends.kubernetes.api.resources import CLUSTERS
from backends.kubernetes.api.views import Cache
from backends.kubernetes.backend.route_table import list_routes
from backends.kubernetes.crd.values import DaskCluster
from backends.routing.publisher import interval_s
from backends.routing.table import TableSettings, build_table, select_routes
from gateway.domain.errors import Unauthenticated, Unavailable
from gateway.http.waits import HELD

log = structlog.get_logger(__name__)

PATH: Final = "/routes"

# Below Traefik's default `pollTimeout` of 5 s, whatever a site has set.
_HELD_S: Final = 4.0
# Of these a proxy that comes anew may have to wait for one and a half.
_LOOK_S: Final = 2.0
_BEHIND_S: Final = 2.0
_PAGE: Final = "500"


class _Metadata(Struct, rename="camel"):
    resource_version: str = "0"


class _Object(Struct):
    metadata: _Metadata


class _ListMetadata(Struct):
    continue_: str = field(default="", name="continue")


class _List(Struct):
    metadata: _ListMetadata
    items: list[_Object]


_DECODER: Final = msgspec.json.Decoder(_List)


class RoutesPage:
    """Serves the table of routes to whoever shows the proxy's token.

    Parameters
    ----------
    client
        In the gateway's namespace.
    clusters
        All `DaskCluster` objects there.
    is_synced
        Returns whether ``clusters`` was whole at some time.
    settings
        Of the table; the same for all API servers.
    token_file
        Holds the token; read for each request, as it may change.

    Notes
    -----
    Replicas do not lag behind each other in a proxy's eyes: whoever comes on a
    new connection may have had a table of another replica's, so it gets one
    that is as new as the API server's own list was then.
    """

    def __init__(
        self,
        client: KubeClient,
        clusters: Cache[DaskCluster],
        is_synced: Callable[[], bool],
        *,
        settings: TableSettings,
        token_file: str,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._is_synced = is_synced
        self._settings = settings
        self._token_file = Path(token_file)
        self._change = asyncio.Event()
        self._is_stale = True
        self._not_before = 0.0
        self._routes: Sequence[Route] = ()
        self._body = b""
        self._refused: tuple[str, ...] = ()
        self._served: WeakKeyDictionary[asyncio.BaseTransport, bytes] = (
            WeakKeyDictionary()
        )

    def add_to(self, app: web.Application) -> None:
        """Have ``app`` answer ``GET /routes``."""
        app.router.add_get(PATH, self._answer, allow_head=False)

    def wake(self) -> None:
        """Say that some cluster has changed."""
        self._is_stale = True
        self._change.set()
        self._change = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.Response:
        await self._check_token(request)
        if not self._is_synced():
            # An empty table would cut all clusters off.
            raise Unavailable("the clusters are not loaded yet")
        transport = request.transport
        known = None if transport is None else self._served.get(transport)
        if known is None:
            await self._catch_up()
        body = await self._hold(request, known)
        if transport is not None:
            self._served[transport] = body
        return web.Response(body=body, content_type="application/json")

    async def _check_token(self, request: web.Request) -> None:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            token = await asyncio.to_thread(self._token_file.read_text, "utf-8")
        except (OSError, UnicodeError) as error:
            text = f"routes_token_file {self._token_file}: {type(error).__name__}"
            log.warning("no token for the proxy", problem=text)
            raise Unavailable(text) from error
        token = token.strip()
        # Without a token nobody is let in, rather than everybody.
        if not token or not hmac.compare_digest(shown.encode(), token.encode()):
            raise Unauthenticated("this is for the proxy alone")

    async def _hold(self, request: web.Request, known: bytes | None) -> bytes:
        """Return the table, once it is another than ``known``, or it is time."""
        held = request.app[HELD]
        with suppress(TimeoutError):
            async with asyncio.timeout(_HELD_S) as scope:
                held.watch(scope)
                try:
                    await self._wait_for_news(known)
                finally:
                    held.forget(scope)
        return self._body

    async def _wait_for_news(self, known: bytes | None) -> None:
        while True:
            change = self._change
            if await self._read_table() is not known:
                return
            await change.wait()

    async def _read_table(self) -> bytes:
        """Return the newest table, or the last one if its time is not yet over.

        At once after a quiet time; then not oftener than a proxy can take.
        """
        loop = asyncio.get_running_loop()
        while self._is_stale or not self._body:
            delay_s = self._not_before - loop.time()
            if delay_s > 0 and self._body:
                await asyncio.sleep(delay_s)
                continue
            self._is_stale = False
            self._build()
            self._not_before = loop.time() + interval_s(len(self._routes))
        return self._body

    def _build(self) -> None:
        routes = list_routes(self._clusters)
        if self._body and routes == self._routes:
            return
        chosen, refused = select_routes(routes, frozenset())
        if refused != self._refused:
            log.warning("route refused", problems=refused)
        self._refused = refused
        self._routes = routes
        self._body = msgspec.json.encode(build_table(chosen, self._settings))
        log.info("routes changed", number=len(chosen))

    async def _catch_up(self) -> None:
        """Return once our cache has all that the API server has now.

        Raises
        ------
        Unavailable
            If it does not come to that; another replica may be better.
        """
        try:
            async with asyncio.timeout(_LOOK_S):
                newest = await self._find_newest()
        except (KubeError, TimeoutError) as error:
            # Nobody can know more now than was known before, and a proxy that
            # was started anew needs a table.
            log.warning("routes may be old", problem=str(error) or "no answer in time")
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEHIND_S):
                while True:
                    change = self._change
                    if self._clusters.version >= newest:
                        break
                    await change.wait()
        if self._clusters.version < newest:
            raise Unavailable("the clusters that are loaded are old")

    async def _find_newest(self) -> int:
        newest, more = 0, {"limit": _PAGE}
        while True:
            raw = await self._client.read_list(
                CLUSTERS, namespace=self._client.namespace, query=more
            )
            page = _DECODER.decode(raw)
            versions = (int(item.metadata.resource_version) for item in page.items)
            newest = max((newest, *versions))
            if not page.metadata.continue_:
                return newest
            more = {"limit": _PAGE, "continue": page.metadata.continue_}
