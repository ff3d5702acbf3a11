"""Traefik beside an API server, in both modes."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.harness.node import ADDRESS, Node
from tests.harness.ports import find_port
from tests.harness.traefik import (
    ENTRY_POINT,
    install_route_kinds,
    poll_routes,
    start_traefik,
    watch_routes,
)
from tests.support.eventually import eventually

PATIENCE_S = 120
SECRET = "made-up-route-secret"
KINDS = (
    *("ingressroutes", "ingressroutetcps", "ingressrouteudps", "middlewares"),
    *("middlewaretcps", "serverstransports", "serverstransporttcps", "tlsoptions"),
    *("tlsstores", "traefikservices"),
)
LOOK = ["list", "watch"]
RULES = [
    {"apiGroups": ["traefik.io"], "resources": list(KINDS), "verbs": LOOK},
    {
        "apiGroups": [""],
        "resources": ["services", "configmaps", "secrets"],
        "verbs": LOOK,
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": LOOK,
    },
]


@contextmanager
def web_server(
    address: str, pages: Mapping[str, Any], secret: str = ""
) -> Iterator[int]:
    """Serve JSON pages, to those who know the secret, and yield the port."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get("Authorization", "") == secret
            page = pages.get(self.path) if is_known or not secret else None
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    port = find_port(address)
    with ThreadingHTTPServer((address, port), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield port
        finally:
            server.shutdown()
            thread.join()


def page_of(url: str) -> Any:
    """Return what is at ``url``, or the status that was said instead."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_routes_are_fetched_with_the_proxys_secret(tmp_path: Path) -> None:
    tables: dict[str, Any] = {}
    with (
        web_server("127.0.0.1", tables, f"Bearer {SECRET}") as api,
        web_server("127.0.0.1", {"/here/": "hello"}) as upstream,
    ):
        servers = [{"url": f"http://127.0.0.1:{upstream}"}]
        services = {"up": {"loadBalancer": {"servers": servers}}}
        routers = {"r": {"rule": "PathPrefix(`/here/`)", "service": "up"}}
        tables["/routes"] = {"http": {"routers": routers, "services": services}}
        url = f"http://127.0.0.1:{api}/routes"
        traefik = start_traefik(tmp_path / "right", poll_routes(url, SECRET))
        stranger = start_traefik(tmp_path / "wrong", poll_routes(url, "guessed"))
        try:

            def is_served() -> bool:
                return bool(page_of(f"{traefik.url}/here/") == "hello")

            assert await eventually(is_served, within=PATIENCE_S)
            assert page_of(f"{stranger.url}/here/") == 404

            traefik.service.restart()
            assert await eventually(is_served, within=PATIENCE_S)
        finally:
            traefik.stop()
            stranger.stop()


@pytest.mark.timeout(300)
async def test_route_objects_are_served_under_traefiks_own_account(
    node: Node, namespace: str, service_account: Any, tmp_path: Path
) -> None:
    api = node.control_plane.client()
    install_route_kinds(api)
    account = service_account("traefik", RULES)
    with web_server(ADDRESS, {"/clusters/c1/x": "hello"}) as upstream:
        await eventually(
            lambda: api.call("GET", "/apis/traefik.io/v1alpha1").is_ok, within=60
        )
        api.apply(*route_objects(upstream), namespace=namespace)
        traefik = start_traefik(
            tmp_path,
            watch_routes(namespace),
            kubeconfig=account.kubeconfig,
            address=ADDRESS,
        )
        try:
            url = f"{traefik.url}/clusters/c1/x"
            assert await eventually(
                lambda: page_of(url) == "hello", within=PATIENCE_S
            ), traefik.service.tail()
        finally:
            traefik.stop()


def route_objects(port: int) -> list[dict[str, Any]]:
    """Return a Service of ours at the node's address, and a route to it."""
    ports = [{"name": "web", "port": port}]
    slice_of = {"kubernetes.io/service-name": "c1"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "c1"},
            "spec": {"clusterIP": "None", "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "c1-1", "labels": slice_of},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "traefik.io/v1alpha1",
            "kind": "IngressRoute",
            "metadata": {"name": "c1"},
            "spec": {
                "entryPoints": [ENTRY_POINT],
                "routes": [
                    {
                        "kind": "Rule",
                        "match": "PathPrefix(`/clusters/c1/`)",
                        "services": [{"name": "c1", "port": port}],
                    }
                ],
            },
        },
    ]
