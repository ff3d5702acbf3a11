"""Routes by HTTP on a real node: two API servers, one Traefik, and who of them dies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.routing.probe import prove_tls
from gateway.domain.names import format_sni
from tests.harness.node import ADDRESS, Node
from tests.support.eventually import eventually
from tests.support.kube_stack import KubeStack, running_kube_stack
from tests.support.rest import Rest, calling

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WITHIN = 120.0


@pytest.fixture
def stack(clusters_node: Node, tmp_path: Path) -> Iterator[KubeStack]:
    with running_kube_stack(clusters_node, tmp_path) as started:
        yield started


async def runs(rest: Rest, name: str) -> str:
    """Wait until the cluster runs, and return its CA."""

    async def check() -> str:
        found = await rest.get(f"/api/v1/clusters/{name}")
        assert found["status"] == "RUNNING", found
        return str(found["tls_cert"])

    return await eventually(check, within=WITHIN, every=0.2)


async def is_routed(stack: KubeStack, name: str, ca_certificate: str) -> bool:
    """Return whether the cluster's own scheduler answers at the public port."""
    return await prove_tls(
        ADDRESS,
        stack.traefik.port,
        server_name=format_sni(name),
        ca_certificate=ca_certificate.partition("-----END CERTIFICATE-----")[2],
        timeout_s=5,
    )


async def test_routes_outlive_api_servers_and_come_back_with_the_proxy(
    stack: KubeStack,
) -> None:
    async with calling(stack.address) as rest:
        first = await rest.create()
        ca = await runs(rest, first)
        page = f"/clusters/{first}/status"

        async def serves() -> bool:
            dashboard = await rest.call("GET", page)
            return dashboard.status == 200 and await is_routed(stack, first, ca)

        assert await serves()
        # Not even who knows the token gets the table at the public port.
        token = stack.folder / "routes-token"
        bearer = {"Authorization": f"Bearer {token.read_text()}"}
        assert (await rest.call("GET", "/routes", headers=bearer)).status == 404
        assert (await rest.call("GET", page, user="mallory")).status == 404

        one, other = stack.servers
        one.kill()
        for _ in range(5):
            assert await serves()
        other.kill()
        assert await is_routed(stack, first, ca)
        for server in (one, other):
            await asyncio.to_thread(server.restart)
        for _ in range(5):
            assert await serves()

        await asyncio.to_thread(stack.traefik.service.restart)
        assert await eventually(serves, within=WITHIN)
        second = await rest.create()
        assert await is_routed(stack, second, await runs(rest, second))

        await rest.stop(first)

        async def is_closed() -> bool:
            return not await is_routed(stack, first, ca)

        assert await eventually(is_closed, within=WITHIN)
        assert (await rest.call("GET", page)).status != 200
        await rest.stop(second)
