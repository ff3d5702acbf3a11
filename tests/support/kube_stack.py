"""A whole gateway on a node: API servers, controllers, Traefik, as the chart has them.

Each process of ours runs in the world itself, under a service account that has the
chart's rights alone. Users, schedulers and Traefik come in at the addresses at which
they would on any cluster: one public port, and a Service before the API servers.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tests.harness.accounts import create_account, create_namespace
from tests.harness.node import ADDRESS, Node
from tests.harness.ports import find_port
from tests.harness.service import START_S, Service, ServiceFailed, answers
from tests.harness.traefik import Traefik, poll_routes, start_traefik
from tests.support.controllers import (
    ANCHOR,
    INSTANCE,
    ControllerProcess,
    Site,
    read_rules,
)

PASSWORD = "let-me-in"
# Two cores carry many pods that have little to do.
SMALL = {
    "image": "test.local/dask:1",
    **{f"{role}_cores": 0.05 for role in ("scheduler", "worker")},
    **{f"{role}_cores_limit": 2 for role in ("scheduler", "worker")},
    **{f"{role}_memory": "256 M" for role in ("scheduler", "worker")},
}
_SERVICE_PORT = 8000
_POLL_S = 0.1

_CONFIG = """
c = get_config()
c.DaskGateway.backend_class = "backends.kubernetes.backend.backend.KubeBackend"
c.DaskGateway.address = {address!r}
c.DaskGateway.data_directory = {data!r}
c.DaskGateway.signing_key_file = {signing_keys!r}
c.DaskGateway.log_level = "DEBUG"
c.DaskGateway.log_style = "json"
c.Proxy.public_url = {public!r}
c.Proxy.gateway_url = {internal!r}
c.SimpleAuthenticator.password = {password!r}
c.KubeBackend.gateway_instance = {instance!r}
c.KubeBackend.kubeconfig = {kubeconfig!r}
c.KubeBackend.anchor_name = {anchor!r}
c.KubeBackend.target_namespaces = {targets!r}
c.KubeBackend.relay_urls = {relay_urls!r}
c.KubeBackend.relay_token_file = {relay_token!r}
c.KubeBackend.routes_token_file = {routes_token!r}
c.KubeBackend.proxy_internal_port = {internal_port!r}
c.KubeClusterConfig.namespace = {namespace!r}
"""


class KubeStack:
    """One gateway with its namespaces and processes.

    Parameters
    ----------
    node
        Knows `DaskCluster`.
    folder
        Of configurations, keys and logs.
    number
        How many API servers, and how many controllers.
    settings
        Of `KubeClusterConfig`, for both kinds of processes.
    extra
        More lines of the API servers' configuration.
    namespaces
        Names of the gateway's own and of two targets; "" draws one.

    Attributes
    ----------
    site
        Its namespaces and controllers; two targets.
    servers
        Its API servers.
    address, port
        Where users come in.
    traefik
        Its proxy.
    """

    traefik: Traefik

    def __init__(
        self,
        node: Node,
        folder: Path,
        *,
        number: int = 2,
        settings: dict[str, object] | None = None,
        extra: str = "",
        namespaces: tuple[str, str, str] = ("", "", ""),
    ) -> None:
        plane = node.control_plane
        api = plane.client()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._number = number
        self._extra = extra
        home = create_namespace(api, "gateway", name=namespaces[0])
        targets = tuple(create_namespace(api, "team", name=n) for n in namespaces[1:])
        self._settings = settings or SMALL
        self.site = Site(plane, home, targets, folder, cluster_settings=self._settings)
        self.api = api
        rules = read_rules("gateway.yaml")
        self.account = create_account(plane, home, "gateway", rules)
        api.post(
            f"/api/v1/namespaces/{home}/configmaps", {"metadata": {"name": ANCHOR}}
        )
        self._relay_token = self._write_token("relay-token")
        self._routes_token = self._write_token("routes-token")
        self.port = find_port(ADDRESS)
        self._internal_port = find_port()
        self.address = f"http://{ADDRESS}:{self.port}"
        self.servers: list[Service] = []

    @property
    def controllers(self) -> Sequence[ControllerProcess]:
        """All that were ever started."""
        return self.site.controllers

    def start(self) -> Self:
        """Start all of it, and wait until it answers at the public port."""
        self.start_controllers()
        self.start_servers()
        self.start_proxy()
        return self

    def start_controllers(self) -> None:
        """Start the controllers; nobody waits for them."""
        for _ in range(self._number):
            self.site.start_controller(
                api_url=f"{self.address}/api",
                proxy_tcp_address=f"{ADDRESS}:{self.port}",
                relay_token_file=str(self._relay_token),
            )

    def start_servers(self) -> None:
        """Start the API servers, and wait until each is ready."""
        ports = [find_port(ADDRESS) for _ in range(self._number)]
        internal = self._make_service(ports)
        self._internal = internal
        self.servers = [
            self._make_server(f"server{index}", port, internal)
            for index, port in enumerate(ports)
        ]
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()

    def start_proxy(self) -> None:
        """Start Traefik, and wait until it passes requests on."""
        self.traefik = start_traefik(
            self.folder / "traefik",
            poll_routes(
                f"{self._internal}/routes", self._routes_token.read_text().strip()
            ),
            address=ADDRESS,
            port=self.port,
            internal_port=self._internal_port,
        )
        self._wait_public()

    def restart_proxy(self) -> None:
        """Kill Traefik and start it again, and wait until it passes requests on.

        For a moment it answers, but has not fetched its table yet: 404.
        """
        self.traefik.service.restart()
        self._wait_public()

    def _wait_public(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            with suppress(OSError):
                if answers(f"{self.address}/api/ready"):
                    return
            if time.monotonic() > deadline:
                raise ServiceFailed(f"nothing answers in public\n{self.tails()}")
            time.sleep(_POLL_S)

    def get(self, path: str, *, user: str = "alice") -> Any:
        """GET a JSON document of the API as ``user``."""
        return json.loads(self.get_text(path, user=user))

    def find(self, path: str, *, user: str = "alice") -> Any:
        """GET a JSON document; ``None`` where there is none."""
        try:
            return self.get(path, user=user)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return None

    def get_text(self, path: str, *, user: str = "alice") -> str:
        """GET a text of the API as ``user``."""
        token = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"{self.address}{path}", headers={"Authorization": f"Basic {token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())

    def stop(self) -> None:
        """End all of it at once, and have its namespaces go."""
        for server in self.servers:
            server.kill()
        if hasattr(self, "traefik"):
            self.traefik.stop()
        for controller in self.controllers:
            controller.kill()
        for name in (*self.site.targets, self.site.home):
            path = f"/api/v1/namespaces/{name}"
            self.api.delete(f"{path}/pods", {"gracePeriodSeconds": 0})
            self.api.delete(path, propagationPolicy="Background")
        self.api.close()

    def tails(self) -> str:
        """Return the last lines of all logs."""
        services = (*self.servers, self.traefik.service)
        texts = [service.tail() for service in services]
        for controller in self.controllers:
            lines = controller.read_log().splitlines()[-30:]
            texts.append("\n".join(["--- controller", *lines]))
        return "\n".join(texts)

    def _write_token(self, name: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(uuid.uuid4().hex)
        return path

    def _make_service(self, ports: Sequence[int]) -> str:
        """Put a Service before the API servers, as for pods; return its URL."""
        base = f"namespaces/{self.site.home}"
        port = {"name": "api", "port": _SERVICE_PORT, "protocol": "TCP"}
        service = {"metadata": {"name": "gateway"}, "spec": {"ports": [port]}}
        made = self.api.post(f"/api/v1/{base}/services", service)
        for index, target in enumerate(ports):
            self.api.post(
                f"/apis/discovery.k8s.io/v1/{base}/endpointslices",
                {
                    "metadata": {
                        "name": f"gateway-{index}",
                        "labels": {"kubernetes.io/service-name": "gateway"},
                    },
                    "addressType": "IPv4",
                    "ports": [{**port, "port": target}],
                    "endpoints": [
                        {"addresses": [ADDRESS], "conditions": {"ready": True}}
                    ],
                },
            )
        return f"http://{made['spec']['clusterIP']}:{_SERVICE_PORT}"

    def _make_server(self, name: str, port: int, internal: str) -> Service:
        folder = self.folder / name
        folder.mkdir()
        relays = [f"http://127.0.0.1:{c.relay_port}" for c in self.controllers]
        text = _CONFIG.format(
            address=f"{ADDRESS}:{port}",
            data=str(folder / "data"),
            signing_keys=str(self.folder / "signing-keys"),
            public=self.address,
            internal=internal,
            password=PASSWORD,
            instance=INSTANCE,
            kubeconfig=str(self.account.kubeconfig),
            anchor=ANCHOR,
            targets=list(self.site.targets),
            relay_urls=relays,
            relay_token=str(self._relay_token),
            routes_token=str(self._routes_token),
            internal_port=self._internal_port,
            namespace=self.site.targets[0],
        )
        lines = [f"c.KubeClusterConfig.{k} = {v!r}" for k, v in self._settings.items()]
        config = folder / "config.py"
        config.write_text("\n".join([text, *lines, self._extra]))
        return Service(
            name,
            [sys.executable, "-m", "gateway", "gateway", "-f", str(config)],
            log=folder / "server.log",
            is_ready=lambda: answers(f"http://{ADDRESS}:{port}/api/ready"),
        )


@contextmanager
def running_kube_stack(
    node: Node, folder: Path, *, number: int = 2, extra: str = ""
) -> Iterator[KubeStack]:
    """Yield a started stack and leave nothing of it behind."""
    stack = KubeStack(node, folder, number=number, extra=extra)
    try:
        yield stack.start()
    finally:
        stack.stop()
