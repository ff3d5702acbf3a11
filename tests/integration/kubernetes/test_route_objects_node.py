"""Routes as objects on a real node: a Traefik of the platform's, under its own Role."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from backends.routing.probe import prove_tls
from gateway.domain.names import format_sni
from tests.harness.accounts import create_account
from tests.harness.node import ADDRESS, Node
from tests.harness.traefik import (
    ENTRY_POINT,
    install_route_kinds,
    start_traefik,
    watch_routes,
)
from tests.support.eventually import eventually
from tests.support.kube_stack import KubeStack
from tests.support.rest import Rest, calling
from tests.support.rights import read_rules

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WITHIN = 120.0
TRAEFIK = "/apis/traefik.io/v1alpha1"


class RoutedStack(KubeStack):
    """A gateway whose controller makes route objects."""

    @override
    def start_controllers(self) -> None:
        both = read_rules("controller-target.yaml") + read_rules(
            "controller-routes.yaml"
        )
        for target in self.site.targets:
            self.site.account.grant(both, namespace=target)
        self.site.start_controller(
            api_url=f"{self.address}/api",
            proxy_tcp_address=self.address.removeprefix("http://"),
            relay_token_file=str(self.folder / "relay-token"),
            routes="ingressroute",
            proxy_web_entrypoint=ENTRY_POINT,
            proxy_tcp_entrypoint=ENTRY_POINT,
            proxy_login_url=f"{self.find_service()}/api/v1/dashboard-auth",
        )

    @override
    def start_proxy(self) -> None:
        home, targets = self.site.home, self.site.targets
        rules = read_rules("traefik-routes.yaml")
        account = create_account(self.site.plane, home, "traefik", rules)
        for target in targets:
            account.grant(rules, namespace=target)
        self.api.post(f"{TRAEFIK}/namespaces/{home}/ingressroutes", API_ROUTE)
        self.traefik = start_traefik(
            self.folder / "traefik",
            watch_routes(home, *targets),
            kubeconfig=account.kubeconfig,
            address=ADDRESS,
            port=int(self.address.rpartition(":")[2]),
        )

    @override
    def start(self) -> "RoutedStack":
        self.start_servers()
        self.start_controllers()
        self.start_proxy()
        return self

    def find_service(self) -> str:
        """Return the URL of the API's Service."""
        found = self.api.get(f"/api/v1/namespaces/{self.site.home}/services/gateway")
        return f"http://{found['spec']['clusterIP']}:8000"


# As the chart makes it, for the platform's Traefik.
API_ROUTE = {
    "apiVersion": "traefik.io/v1alpha1",
    "kind": "IngressRoute",
    "metadata": {"name": "api"},
    "spec": {
        "entryPoints": [ENTRY_POINT],
        "routes": [
            {
                "kind": "Rule",
                "match": "PathPrefix(`/api/`)",
                "priority": 1000,
                "services": [{"name": "gateway", "port": 8000}],
            }
        ],
    },
}


@pytest.fixture
def stack(clusters_node: Node, tmp_path: Path) -> Iterator[RoutedStack]:
    install_route_kinds(clusters_node.control_plane.client())
    made = RoutedStack(clusters_node, tmp_path, number=1)
    try:
        yield made.start()
    finally:
        made.stop()


async def runs(rest: Rest, name: str) -> str:
    """Wait until the cluster runs, and return its CA."""

    async def check() -> str:
        found = await rest.get(f"/api/v1/clusters/{name}")
        assert found["status"] == "RUNNING", found
        return str(found["tls_cert"]).partition("-----END CERTIFICATE-----")[2]

    return await eventually(check, within=WITHIN, every=0.2)


async def test_the_platforms_traefik_serves_clusters_of_two_namespaces(
    stack: RoutedStack,
) -> None:
    async def is_routed(name: str, ca: str) -> bool:
        return await prove_tls(
            ADDRESS,
            stack.traefik.port,
            server_name=format_sni(name),
            ca_certificate=ca,
            timeout_s=5,
        )

    async with calling(stack.address) as rest:

        async def is_up() -> bool:
            return (await rest.call("GET", "/api/ready")).status == 200

        await eventually(is_up, within=WITHIN)
        first = await rest.create()
        ca = await runs(rest, first)
        # By kubectl, since no option leads there.
        stack.site.make_cluster("c2", targetNamespace=stack.site.targets[1])
        await runs(rest, "c2")

        page = f"/clusters/{first}"
        assert await is_routed(first, ca)
        assert (await rest.call("GET", f"{page}/status")).status == 200
        for user, password in (("alice", "wrong"), (None, "")):
            reply = await rest.call(
                "GET", f"{page}/status", user=user, password=password
            )
            assert reply.status == 401
        assert (await rest.call("GET", f"{page}/status", user="mallory")).status == 404
        # distributed leads from its root to an absolute path.
        home = await rest.call("GET", page)
        assert (home.status, home.headers["Location"].endswith(f"{page}/status")) == (
            302,
            True,
        )

        await asyncio.to_thread(stack.traefik.service.restart)

        async def serves() -> bool:
            reply = await rest.call("GET", f"{page}/status")
            return reply.status == 200 and await is_routed(first, ca)

        assert await eventually(serves, within=WITHIN)
        await rest.stop(first)

        async def is_closed() -> bool:
            return not await is_routed(first, ca)

        assert await eventually(is_closed, within=WITHIN)
        await rest.stop("c2")
