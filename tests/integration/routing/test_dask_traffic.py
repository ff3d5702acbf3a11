"""Dask traffic through a real Traefik: SNI, proofs, open connections, odd hellos.

Covers W18 (RUNNING before routes exist) and the proxy's half of W33 of the
contract (routes to whatever a scheduler names).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from backends.database.routes import Route
from backends.routing.routes import TraefikRoutes
from gateway.aio.clock import SystemClock
from gateway.credentials import make_credentials
from gateway.domain.credentials import Credentials
from tests.support.eventually import eventually
from tests.support.traefik import (
    Scheduler,
    Upstream,
    address_of,
    client_context,
    find_port,
    read_table,
    running,
    say,
    traefik,
)

pytestmark = pytest.mark.integration


@dataclass
class Cluster:
    name: str
    credentials: Credentials
    scheduler: Scheduler
    client: ssl.SSLContext

    @property
    def route(self) -> Route:
        return Route(self.name, "127.0.0.1", self.scheduler.port, None)

    @property
    def ca(self) -> str:
        return self.credentials.ca_certificate


@asynccontextmanager
async def a_cluster(name: str, folder: Path, **kwargs) -> AsyncIterator[Cluster]:
    credentials = make_credentials(name, SystemClock().now())
    scheduler = Scheduler(credentials, folder, **kwargs)
    async with running(scheduler):
        yield Cluster(name, credentials, scheduler, client_context(credentials, folder))


@asynccontextmanager
async def an_api() -> AsyncIterator[Upstream]:
    api = Upstream("api")
    async with running(api):
        yield api


async def prove(routes: TraefikRoutes, cluster: Cluster) -> None:
    await eventually(lambda: routes.prove(cluster.name, cluster.ca), within=60)


async def test_w18_a_route_is_proved_by_its_clusters_ca_and_by_no_other(
    tmp_path: Path,
) -> None:
    async with (
        a_cluster("a", tmp_path) as a,
        a_cluster("b", tmp_path) as b,
        traefik(tmp_path) as routes,
    ):
        assert not await routes.prove("a", a.ca)
        await routes.publish([a.route])
        await prove(routes, a)

        assert not await routes.prove("a", b.ca)
        assert not await routes.prove("b", b.ca)
        assert await say(routes, "a", a.client, "hello") == "hello"


async def test_a_scheduler_is_proved_directly(tmp_path: Path) -> None:
    async with (
        a_cluster("a", tmp_path) as a,
        a_cluster("b", tmp_path) as b,
        traefik(tmp_path) as routes,
    ):
        nowhere = Route("a", "127.0.0.1", find_port(), None)

        assert await routes.prove_scheduler(a.route, a.ca)
        assert not await routes.prove_scheduler(b.route, a.ca)
        assert not await routes.prove_scheduler(nowhere, a.ca)


async def test_a_scheduler_that_speaks_only_tls_1_2_is_proved_too(
    tmp_path: Path,
) -> None:
    """There the server refuses us, who have no certificate, in the handshake."""
    async with (
        a_cluster("a", tmp_path, maximum=ssl.TLSVersion.TLSv1_2) as a,
        a_cluster("b", tmp_path) as b,
        traefik(tmp_path) as routes,
    ):
        await routes.publish([a.route])
        await prove(routes, a)

        assert not await routes.prove("a", b.ca)


async def test_an_unknown_cluster_is_closed_and_other_names_prove_nothing(
    tmp_path: Path,
) -> None:
    async with a_cluster("a", tmp_path) as a, traefik(tmp_path) as routes:
        await routes.publish([a.route])
        await prove(routes, a)

        with pytest.raises((ssl.SSLError, ConnectionError)):
            await say(routes, "unknown", a.client, "hello")
        anybody = ssl._create_unverified_context()  # noqa: S323 - to look at it
        _, writer = await asyncio.open_connection(
            *address_of(routes), ssl=anybody, server_hostname="gateway.example"
        )
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()

        shown = ssl.DER_cert_to_PEM_cert(certificate)
        kept = (tmp_path / "traefik" / "default.pem").read_text()
        assert shown.strip() in kept


async def test_the_default_certificate_outlives_changes_of_the_table(
    tmp_path: Path,
) -> None:
    async with traefik(tmp_path) as routes:
        path = tmp_path / "traefik" / "default.pem"
        before = path.read_bytes()
        await routes.publish([Route("a", "127.0.0.1", 1, None)])

        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o600
        table = tmp_path / "traefik" / "routes.yml"
        assert table.stat().st_mode & 0o777 == 0o600


async def test_open_connections_survive_every_change_of_the_table(
    tmp_path: Path,
) -> None:
    async with (
        a_cluster("a", tmp_path) as a,
        a_cluster("b", tmp_path) as b,
        traefik(tmp_path) as routes,
    ):
        await routes.publish([a.route])
        await prove(routes, a)
        reader, writer = await asyncio.open_connection(
            *address_of(routes), ssl=a.client, server_hostname="daskgateway-a"
        )

        await routes.publish([a.route, b.route])
        await prove(routes, b)
        await routes.publish([b.route])

        async def gone() -> bool:
            return not await routes.prove("a", a.ca)

        await eventually(gone, within=60)
        writer.write(b"still here\n")
        assert await asyncio.wait_for(reader.readline(), 30) == b"still here\n"
        writer.transport.abort()


async def test_a_cluster_takes_no_client_of_another(tmp_path: Path) -> None:
    async with (
        a_cluster("a", tmp_path) as a,
        a_cluster("b", tmp_path) as b,
        traefik(tmp_path) as routes,
    ):
        await routes.publish([a.route])
        await prove(routes, a)
        intruder = client_context(b.credentials, tmp_path)
        intruder.verify_mode = ssl.CERT_NONE

        try:
            heard = await say(routes, "a", intruder, "hello")
        except (ssl.SSLError, ConnectionError):
            heard = ""

        assert heard == ""


async def test_w23_a_hello_of_more_than_four_kilobytes_passes(tmp_path: Path) -> None:
    async with a_cluster("a", tmp_path) as a, traefik(tmp_path) as routes:
        await routes.publish([a.route])
        await prove(routes, a)
        # ALPN is the one extension that Python lets us fill.
        a.client.set_alpn_protocols([f"{number:0>200}" for number in range(30)])

        assert await say(routes, "a", a.client, "hello") == "hello"


async def test_two_hundred_routes_are_served(tmp_path: Path) -> None:
    async with (
        a_cluster("last", tmp_path) as last,
        an_api() as api,
        traefik(tmp_path, gateway_urls=(api.url,)) as routes,
    ):
        others = [Route(f"c{n}", "127.0.0.1", 1, 1) for n in range(199)]
        await routes.publish([*others, last.route])
        await prove(routes, last)

        assert len(read_table(routes)["tcp"]["services"]) == 201
        assert await say(routes, "last", last.client, "hello") == "hello"


async def test_dask_traffic_can_have_a_port_of_its_own(tmp_path: Path) -> None:
    port = find_port()
    async with (
        a_cluster("a", tmp_path) as a,
        traefik(tmp_path, tcp_address=f"127.0.0.1:{port}") as routes,
    ):
        await routes.publish([a.route])
        await prove(routes, a)

        with pytest.raises((ssl.SSLError, ConnectionError)):
            await say(routes, "a", a.client, "on the public port")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.transport.abort()


async def test_w33_a_scheduler_cannot_name_the_gateways_own_ports(
    tmp_path: Path,
) -> None:
    async with (
        a_cluster("a", tmp_path) as a,
        an_api() as api,
        traefik(tmp_path, gateway_urls=(api.url,)) as routes,
    ):
        evil = [
            Route("b", "127.0.0.1", 1, api.port),
            Route("c", "localhost", address_of(routes)[1], None),
            Route("d", "127.0.0.2", 1, routes._internal_port),
            Route("E`) || PathPrefix(`/", "127.0.0.1", 1, 2),
            Route("f", "evil.example/x", 1, 2),
        ]
        with capture_logs() as logs:
            await routes.publish([a.route, *evil])
            await routes.publish([a.route, *evil])
        await prove(routes, a)

        assert sorted(read_table(routes)["tcp"]["services"]) == ["closed", "cluster-a"]
        assert [entry["event"] for entry in logs] == ["route refused"] * len(evil)
