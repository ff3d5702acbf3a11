"""etcd and an API server with its own authority, and the controllers on demand.

Needs no root, no sandbox and no other machine: all of it listens on one address
and free ports. What runs containers stands in `tests.harness.node`.
"""

import secrets as random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml

from tests.harness.api import KubeApi
from tests.harness.binary import find_kube
from tests.harness.pki import write_serving_files, write_signing_key
from tests.harness.ports import find_port
from tests.harness.service import Service, answers

FILES = Path(__file__).parent / "files"
SERVICE_RANGE = "10.96.0.0/16"
# The first address of the range is the API server's own Service.
_NAMES = (
    "localhost",
    "127.0.0.1",
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# Users with a token of their own, so that the audit log tells them apart.
ADMIN = "admin"
_PARTS = (
    ADMIN,
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a control plane is started.

    Parameters
    ----------
    folder
        Of its files and logs; of etcd's data too.
    address
        Where the API server listens.
    is_node_wanted
        Advertise the address as the ``kubernetes`` Service, for pods.
    port
        Of the API server; 0 for a free one.
    etcd_flags, apiserver_flags, controller_flags
        Added to those of the harness; a later flag wins.
    """

    folder: Path
    address: str = "127.0.0.1"
    port: int = 0
    is_node_wanted: bool = False
    etcd_flags: Sequence[str] = ()
    apiserver_flags: Sequence[str] = ()
    controller_flags: Sequence[str] = ()
    names: Sequence[str] = field(default=_NAMES)


class ControlPlane:
    """One API server and its etcd, both to be paused, killed and restarted.

    Attributes
    ----------
    url
        Of the API server.
    authority
        PEM file by which it is verified.
    audit_log
        JSON lines, appended over restarts.
    etcd, apiserver, controllers
        The services; the last runs only after `start_controllers`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = settings.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.audit_log = self.folder / "audit.jsonl"
        self._serving = write_serving_files(
            self.folder, sorted({*settings.names, settings.address})
        )
        self._signing_key = write_signing_key(self.folder / "accounts.key")
        self._tokens = {part: random.token_urlsafe(24) for part in _PARTS}
        self._write_tokens()
        self._ports = {name: find_port() for name in ("etcd", "peer", "controllers")}
        port = settings.port or find_port()
        self.url = f"https://{settings.address}:{port}"
        self.authority = self._serving.authority
        self.etcd = self._make_etcd()
        self.apiserver = self._make_apiserver(port)
        self.controllers = self._make_controllers()

    @property
    def token(self) -> str:
        """The admin's, for tests alone: no process of ours ever gets it."""
        return self._tokens[ADMIN]

    @property
    def services(self) -> Mapping[str, Service]:
        """All of them by name, in the order of their start."""
        ordered = (self.etcd, self.apiserver, self.controllers)
        return {service.name: service for service in ordered}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no log may show."""
        return tuple(self._tokens.values())

    def start(self) -> Self:
        """Start both and wait until the API server is ready."""
        self.etcd.start()
        self.apiserver.start()
        return self

    def start_controllers(self) -> Service:
        """Start garbage collection, namespaces' ends and the like, if not running."""
        return (
            self.controllers
            if self.controllers.is_running
            else self.controllers.start()
        )

    def stop(self) -> None:
        """End all of it at once; its state is not used again."""
        for service in (self.controllers, self.apiserver, self.etcd):
            service.kill()

    def client(self, token: str | None = None) -> KubeApi:
        """Return a client: the admin's, or that of ``token``."""
        return KubeApi(self.url, self.authority, self.token if token is None else token)

    def write_kubeconfig(
        self, path: Path, token: str, *, namespace: str = "default"
    ) -> Path:
        """Write the kubeconfig of a user; it verifies the server by the authority."""
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        context = {"cluster": "harness", "user": "user", "namespace": namespace}
        path.touch(mode=0o600)
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "harness", "cluster": cluster}],
                    "users": [{"name": "user", "user": {"token": token}}],
                    "contexts": [{"name": "harness", "context": context}],
                    "current-context": "harness",
                }
            )
        )
        return path

    def write_part_kubeconfig(self, part: str) -> Path:
        """Write the kubeconfig of a part of Kubernetes, under its own name."""
        return self.write_kubeconfig(
            self.folder / f"{part}.kubeconfig", self._tokens[part]
        )

    def _write_tokens(self) -> None:
        path = self.folder / "tokens.csv"
        path.touch(mode=0o600)
        lines = (
            f'{token},{part},{part},"system:masters"\n'
            for part, token in self._tokens.items()
        )
        path.write_text("".join(lines))

    def _make_etcd(self) -> Service:
        client, peer = (
            f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer")
        )
        return Service(
            "etcd",
            [
                find_kube(),
                "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                # The machine does not lose power here; a kill -9 loses nothing.
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                *self.settings.etcd_flags,
            ],
            log=self.folder / "etcd.log",
            is_ready=lambda: answers(f"{client}/readyz"),
        )

    def _make_apiserver(self, port: int) -> Service:
        settings, serving = self.settings, self._serving
        endpoints = "lease" if settings.is_node_wanted else "none"
        bound = "0.0.0.0" if settings.is_node_wanted else settings.address  # noqa: S104 - in a network namespace of its own
        return Service(
            "kube-apiserver",
            [
                find_kube(),
                "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
                f"--bind-address={bound}",
                f"--advertise-address={settings.address}",
                f"--endpoint-reconciler-type={endpoints}",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'apiserver-pki'}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                f"--service-account-key-file={self._signing_key}",
                f"--service-account-signing-key-file={self._signing_key}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                "--kubelet-preferred-address-types=InternalIP",
                "--allow-privileged=true",
                "--profiling=false",
                f"--audit-policy-file={FILES / 'audit-policy.yaml'}",
                f"--audit-log-path={self.audit_log}",
                # A line is there when its request is answered.
                "--audit-log-mode=blocking",
                "--audit-log-maxsize=10000",
                *settings.apiserver_flags,
            ],
            log=self.folder / "kube-apiserver.log",
            is_ready=lambda: answers(f"{self.url}/readyz", authority=self.authority),
        )

    def _make_controllers(self) -> Service:
        kubeconfig = self.write_part_kubeconfig("kube-controller-manager")
        port = self._ports["controllers"]
        return Service(
            "kube-controller-manager",
            [
                find_kube(),
                "kube-controller-manager",
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'controllers-pki'}",
                f"--service-account-private-key-file={self._signing_key}",
                f"--root-ca-file={self.authority}",
                "--profiling=false",
                *self.settings.controller_flags,
            ],
            log=self.folder / "kube-controller-manager.log",
            is_ready=lambda: answers(
                f"https://127.0.0.1:{port}/healthz", is_verified=False
            ),
        )
