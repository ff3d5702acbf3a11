"""Controller processes under their own account, with the chart's roles alone."""

import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.harness.accounts import Account, create_account
from tests.harness.api import KubeApi
from tests.harness.control_plane import ControlPlane
from tests.harness.ports import find_port
from tests.support.rights import ANCHOR, INSTANCE, read_rules
from tests.support.sources import ROOT

CLUSTERS = "/apis/daskfleet.io/v1alpha1"
_STOP_S = 30.0


@dataclass
class ControllerProcess:
    """``daskfleet controller``, started from a file as an operator starts it."""

    account: Account
    folder: Path
    namespaces: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    cluster_settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "controller.log"
        self.port = find_port()
        self.relay_port = find_port()
        self.token = uuid.uuid4().hex
        (self.folder / "relay-token").write_text(self.token)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it; it may take a second until it leads."""
        settings = {
            "gateway_instance": INSTANCE,
            "kubeconfig": str(self.account.kubeconfig),
            "api_url": "http://gateway.test:8000/api",
            "namespaces": list(self.namespaces),
            "address": f"127.0.0.1:{self.port}",
            "relay_address": f"127.0.0.1:{self.relay_port}",
            "relay_token_file": str(self.folder / "relay-token"),
            "log_level": "DEBUG",
            "log_style": "json",
            **self.settings,
        }
        lines = [
            f"c.KubeController.{name} = {value!r}" for name, value in settings.items()
        ]
        cluster = {"image": "test.local/dask:1", **self.cluster_settings}
        lines += [f"c.KubeClusterConfig.{n} = {v!r}" for n, v in cluster.items()]
        config = self.folder / "config.py"
        config.write_text(textwrap.dedent("\n".join(lines)))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "controller", "-f", str(config)],
                stderr=log,
                stdout=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            assert self.process is not None
            self.process.wait(_STOP_S)

    def stop(self) -> int:
        """End it as a supervisor does, and return its exit status."""
        assert self.process is not None
        if self.is_running:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.process.wait(_STOP_S)

    def read_log(self) -> str:
        return self.log.read_text()

    def ask(self, path: str) -> str:
        """GET a text of its probes and metrics."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return str(answer.read().decode())


class Site:
    """The gateway's namespace and its target namespaces, as the chart sets them up.

    Parameters
    ----------
    home, targets
        Of the gateway, and of clusters' pods.
    unready
        Served as well, though nobody gave the controller its Role there.
    cluster_settings
        Of `KubeClusterConfig`.
    """

    def __init__(
        self,
        plane: ControlPlane,
        home: str,
        targets: tuple[str, ...],
        folder: Path,
        *,
        unready: tuple[str, ...] = (),
        cluster_settings: Mapping[str, object] | None = None,
    ) -> None:
        self.plane = plane
        self.api: KubeApi = plane.client()
        self.home = home
        self.targets = targets
        self.folder = folder
        self.unready = unready
        self.cluster_settings = cluster_settings or {}
        self.account = create_account(
            plane, home, "controller", read_rules("controller.yaml")
        )
        for target in targets:
            self.prepare(target)
        self.controllers: list[ControllerProcess] = []

    def prepare(self, target: str) -> None:
        """Give a namespace what the chart gives each that it is told of."""
        self.account.grant(read_rules("controller-target.yaml"), namespace=target)
        anchor = {"metadata": {"name": ANCHOR}}
        self.api.post(f"/api/v1/namespaces/{target}/configmaps", anchor)

    def start_controller(self, **settings: object) -> ControllerProcess:
        """Start one more controller."""
        number = len(self.controllers)
        made = ControllerProcess(
            self.account,
            self.folder / f"c{number}",
            (*self.targets, *self.unready),
            settings,
            self.cluster_settings,
        )
        self.controllers.append(made)
        return made.start()

    def close(self) -> None:
        for controller in self.controllers:
            if controller.is_running:
                controller.stop()

    def make_cluster(self, name: str, replicas: int = 0, **spec: Any) -> dict[str, Any]:
        """Make a DaskCluster, as with kubectl."""
        body = {
            "apiVersion": "daskfleet.io/v1alpha1",
            "kind": "DaskCluster",
            "metadata": {"name": name, "namespace": self.home},
            "spec": {
                "owner": {"user": "alice"},
                "targetNamespace": self.targets[0],
                "workers": {"replicas": replicas},
                **spec,
            },
        }
        return dict(
            self.api.post(f"{CLUSTERS}/namespaces/{self.home}/daskclusters", body)
        )

    def path(self, name: str, subresource: str = "") -> str:
        tail = f"/{subresource}" if subresource else ""
        return f"{CLUSTERS}/namespaces/{self.home}/daskclusters/{name}{tail}"

    def cluster(self, name: str) -> dict[str, Any]:
        return dict(self.api.get(self.path(name)))

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.cluster(name).get("status", {}))

    def sync(self, name: str) -> None:
        """Say what the API server does once a scheduler has called."""
        status = {"firstSyncTime": "2026-01-01T00:00:00Z"}
        self.api.patch(self.path(name, "status"), {"status": status})

    def scale(self, name: str, replicas: int) -> None:
        self.api.patch(self.path(name), {"spec": {"workers": {"replicas": replicas}}})

    def pods(self, name: str, target: str | None = None) -> list[dict[str, Any]]:
        return self.api.items(
            f"/api/v1/namespaces/{target or self.targets[0]}/pods",
            labelSelector=f"daskfleet.io/cluster={name}",
        )

    def workers(self, name: str) -> list[str]:
        """Return names of the worker pods that are not on their way out."""
        return sorted(
            pod["metadata"]["name"]
            for pod in self.pods(name)
            if "-worker-" in pod["metadata"]["name"]
            and "deletionTimestamp" not in pod["metadata"]
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        return self.api.items(
            f"/api/v1/namespaces/{self.home}/events",
            fieldSelector=f"involvedObject.name={name}",
        )
