"""The table of routes that an API server serves to the proxy, over real clusters."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.api.informer import Informer, Scope
from backends.kubernetes.api.resources import CLUSTERS
from backends.kubernetes.backend.routes import PATH, RoutesPage
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import DaskCluster
from backends.routing.table import TableSettings, parse_routes
from gateway.aio.clock import SystemClock
from gateway.aio.tasks import Supervisor
from gateway.domain.errors import GatewayError
from gateway.http.waits import HELD, HeldCalls
from tests.harness.api import KubeApi
from tests.harness.control_plane import ControlPlane
from tests.support import secrets
from tests.support.eventually import eventually
from tests.support.kube_kind import install_kind

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

TOKEN = secrets.remember("made-up-token-of-the-proxy", "the proxy's token")
BEARER = {"Authorization": f"Bearer {TOKEN}"}
KIND = "/apis/daskfleet.io/v1alpha1"
RULES = [
    {
        "apiGroups": ["daskfleet.io"],
        "resources": ["daskclusters"],
        "verbs": ["list", "watch"],
    }
]


class Clusters:
    """`DaskCluster` objects in a namespace, with a status as a controller writes it."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"{KIND}/namespaces/{namespace}/daskclusters"

    def make(self, name: str, phase: str = "Running") -> None:
        body = {
            "apiVersion": "daskfleet.io/v1alpha1",
            "kind": "DaskCluster",
            "metadata": {"name": name},
            "spec": {"owner": {"user": "alice"}, "targetNamespace": "team"},
        }
        self.api.post(self.path, body)
        self.api.patch(f"{self.path}/{name}/status", {"status": {"phase": phase}})


class Server:
    """An API server's part of it: an informer, and the page on a port."""

    def __init__(self, client: KubeClient, token_file: Path) -> None:
        self.informer: Informer[DaskCluster] = Informer(
            client,
            Scope(CLUSTERS, client.namespace),
            decode=parse_dask_cluster,
            on_change=lambda _: self.page.wake(),
            clock=SystemClock(),
        )
        self.page = RoutesPage(
            client,
            self.informer.cache,
            lambda: self.informer.is_synced,
            settings=TableSettings(("http://127.0.0.1:1",)),
            token_file=str(token_file),
        )
        self.app = web.Application(middlewares=[answer_errors])
        self.app[HELD] = HeldCalls()
        self.page.add_to(self.app)
        self.server = TestServer(self.app)

    @property
    def url(self) -> str:
        return str(self.server.make_url(PATH))


@web.middleware
async def answer_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except GatewayError as error:
        return web.Response(status=getattr(error, "http_status", 500), text=str(error))
    return answer


Start = Callable[..., Awaitable[Server]]


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> ControlPlane:
    return install_kind(apiserver)


@pytest.fixture
def clusters(plane: ControlPlane, namespace: str) -> Clusters:
    return Clusters(plane.client(), namespace)


@pytest.fixture
async def connection(service_account: Any) -> Connection:
    return await load_connection(str(service_account("table", RULES).kubeconfig))


@pytest.fixture
async def start(connection: Connection, tmp_path: Path) -> AsyncIterator[Start]:
    """Start a server; with ``follows=False`` its informer never runs."""
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n")
    async with AsyncExitStack() as stack:

        async def make(*, follows: bool = True) -> Server:
            client = KubeClient(connection)
            stack.push_async_callback(client.close)
            server = Server(client, token_file)
            tasks = await stack.enter_async_context(Supervisor())
            if follows:
                tasks.start("informer", server.informer.run)
                await server.informer.synced.wait()
            await stack.enter_async_context(server.server)
            return server

        yield make


@pytest.fixture
async def proxy() -> AsyncIterator[aiohttp.ClientSession]:
    """One connection, as a proxy has it."""
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector, headers=BEARER) as session:
        yield session


async def ask(proxy: aiohttp.ClientSession, server: Server) -> list[str]:
    """Return the names that are routed."""
    async with proxy.get(server.url) as answer:
        assert answer.status == 200, await answer.text()
        return [route.cluster for route in parse_routes(await answer.json())]


async def test_the_table_is_held_until_there_is_another(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    clusters.make("c1")
    server = await start()

    assert await ask(proxy, server) == ["c1"]
    held = asyncio.ensure_future(ask(proxy, server))  # noqa: TID251 - awaited below
    assert await eventually(lambda: len(server.app[HELD]) == 1)
    begin = time.monotonic()
    await asyncio.to_thread(clusters.make, "c2")

    assert await held == ["c1", "c2"]
    assert time.monotonic() - begin < 3.0


async def test_an_unchanged_table_comes_again_after_a_while(
    start: Start,
    clusters: Clusters,
    proxy: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backends.kubernetes.backend.routes._HELD_S", 0.2)
    clusters.make("c1")
    clusters.make("c2", phase="Pending")
    server = await start()

    begin = time.monotonic()
    asked = [await ask(proxy, server) for _ in range(3)]

    assert asked == [["c1"]] * 3
    assert time.monotonic() - begin >= 0.4


async def test_a_changed_status_that_moves_no_route_wakes_nobody(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    clusters.make("c1")
    server = await start()
    await ask(proxy, server)
    held = asyncio.ensure_future(ask(proxy, server))  # noqa: TID251 - awaited below
    assert await eventually(lambda: len(server.app[HELD]) == 1)

    status = {"status": {"message": "still here"}}
    path = f"{clusters.path}/c1/status"
    await asyncio.to_thread(clusters.api.patch, path, status)
    changed = clusters.api.get(f"{clusters.path}/c1")["metadata"]["resourceVersion"]
    assert await eventually(lambda: server.informer.cache.version >= int(changed))

    assert not held.done()
    server.app[HELD].release()
    assert await held == ["c1"]


async def test_a_burst_of_changes_is_a_few_tables(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    server = await start()
    await ask(proxy, server)
    made = {f"c{number:02}" for number in range(20)}
    tables: list[list[str]] = []

    async def follow() -> None:
        while not tables or set(tables[-1]) != made:
            tables.append(await ask(proxy, server))

    def make() -> float:
        begin = time.monotonic()
        for name in sorted(made):
            clusters.make(name)
        return time.monotonic() - begin

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        took_s = await asyncio.to_thread(make)

    # One at once, then no more than ten in a second, and the last one is whole.
    assert len(tables) <= took_s / 0.1 + 2
    assert all(set(a) <= set(b) for a, b in itertools.pairwise(tables))


async def test_a_server_that_is_told_to_stop_answers_at_once(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    clusters.make("c1")
    server = await start()
    server.app[HELD].release()

    begin = time.monotonic()
    asked = [await ask(proxy, server) for _ in range(3)]

    assert asked == [["c1"]] * 3
    assert time.monotonic() - begin < 2.0


async def test_a_server_that_knows_nothing_yet_serves_no_empty_table(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    clusters.make("c1")
    server = await start(follows=False)

    async with proxy.get(server.url) as answer:
        assert answer.status == 503


@pytest.mark.parametrize(
    "shown", ["", "Bearer ", "Bearer guessed", f"bearer {TOKEN}x", f"Basic {TOKEN}"]
)
async def test_nobody_else_gets_the_table(start: Start, shown: str) -> None:
    server = await start()

    headers = {"Authorization": shown}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(server.url) as answer,
    ):
        assert (answer.status, TOKEN in await answer.text()) == (401, False)


async def test_without_a_token_nobody_is_let_in(
    start: Start, proxy: aiohttp.ClientSession, tmp_path: Path
) -> None:
    server = await start()

    (tmp_path / "token").write_text("\n")
    async with proxy.get(server.url) as answer:
        assert answer.status == 401
    (tmp_path / "token").unlink()
    async with proxy.get(server.url) as answer:
        assert answer.status == 503


async def test_a_proxy_that_comes_anew_gets_what_another_server_may_have_served(
    start: Start, clusters: Clusters, proxy: aiohttp.ClientSession
) -> None:
    server = await start()
    assert await ask(proxy, server) == []
    behind = await start()
    # It hears of nothing any more, and does not know.
    behind.informer.cache.put = lambda _: None
    behind.informer.cache.reached = lambda _: None
    await asyncio.to_thread(clusters.make, "c1")

    async with proxy.get(behind.url) as answer:
        assert answer.status == 503
    assert await eventually(lambda: ask(proxy, server))


async def test_with_the_api_server_away_a_new_proxy_gets_what_is_known(
    plane: ControlPlane,
    start: Start,
    clusters: Clusters,
    proxy: aiohttp.ClientSession,
) -> None:
    clusters.make("c1")
    server = await start()

    plane.apiserver.pause()
    try:
        assert await ask(proxy, server) == ["c1"]
    finally:
        plane.apiserver.resume()
