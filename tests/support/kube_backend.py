"""API servers on Kubernetes under test, and a stand-in for the controller's words."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from traitlets.config import Config

from backends.kubernetes.backend.backend import KubeBackend
from gateway.domain.cluster import PublicStatus
from gateway.domain.policy import Policy
from tests.harness.accounts import Account, create_account
from tests.harness.api import KubeApi
from tests.harness.control_plane import ControlPlane
from tests.support.backend_subject import MAX_WORKERS, OPTIONS, Subject
from tests.support.eventually import eventually
from tests.support.rights import ANCHOR, INSTANCE, read_rules

CLUSTERS = "/apis/daskfleet.io/v1alpha1"


class GatewaySite:
    """A gateway's namespace, with the API server's account and Role alone."""

    def __init__(self, plane: ControlPlane, home: str) -> None:
        self.plane = plane
        self.api: KubeApi = plane.client()
        self.home = home
        self.account: Account = create_account(
            plane, home, "gateway", read_rules("gateway.yaml")
        )
        anchor = {"metadata": {"name": ANCHOR}}
        self.anchor = self.api.post(f"/api/v1/namespaces/{home}/configmaps", anchor)

    def make_backend(
        self,
        policy: Policy | None = None,
        *,
        cls: type[KubeBackend] = KubeBackend,
        **traits: Any,
    ) -> KubeBackend:
        """Return a backend that is not yet set up."""
        config = Config({"KubeClusterConfig": {"cluster_max_workers": MAX_WORKERS}})
        settings: dict[str, Any] = {
            "config": config,
            "cluster_options": OPTIONS,
            "gateway_instance": INSTANCE,
            "kubeconfig": str(self.account.kubeconfig),
            "target_namespaces": ["default"],
            **traits,
        }
        return cls(policy=policy or Policy(), **settings)

    def path(self, name: str, subresource: str = "") -> str:
        tail = f"/{subresource}" if subresource else ""
        return f"{CLUSTERS}/namespaces/{self.home}/daskclusters/{name}{tail}"

    def list_objects(self, **query: str) -> list[dict[str, Any]]:
        path = f"{CLUSTERS}/namespaces/{self.home}/daskclusters"
        return self.api.items(path, **query)

    def cluster(self, name: str) -> dict[str, Any]:
        return dict(self.api.get(self.path(name)))

    def make_cluster(self, name: str, user: str = "alice", **spec: Any) -> None:
        """Make a DaskCluster, as with kubectl."""
        body = {
            "apiVersion": "daskfleet.io/v1alpha1",
            "kind": "DaskCluster",
            "metadata": {"name": name, "namespace": self.home},
            "spec": {"owner": {"user": user}, "targetNamespace": "default", **spec},
        }
        self.api.post(f"{CLUSTERS}/namespaces/{self.home}/daskclusters", body)

    def report(self, name: str, **status: Any) -> None:
        """Write a status, as the controller does."""
        self.api.patch(self.path(name, "status"), {"status": status})

    def master(self, name: str) -> dict[str, str]:
        """Return what a cluster's master Secret holds."""
        uid = self.cluster(name)["metadata"]["uid"]
        path = f"/api/v1/namespaces/{self.home}/secrets/dask-master-{uid}"
        entries = self.api.get(path)["data"]
        return {key: b64decode(text).decode() for key, text in entries.items()}

    def end_stopped(self) -> None:
        """Write Stopped for all that are to stop, as the controller does."""
        for cluster in self.list_objects():
            status = cluster.get("status", {})
            if cluster["spec"]["active"] or status.get("phase") == "Stopped":
                continue
            annotations = cluster["metadata"].get("annotations", {})
            self.report(
                cluster["metadata"]["name"],
                phase="Stopped",
                reason=annotations.get("daskfleet.io/stop-reason", "StoppedByUser"),
                message=annotations.get("daskfleet.io/stop-message", ""),
                completionTime="2026-01-01T00:01:00Z",
            )


class KubeSubject(Subject):
    """Backends on one API server, and what a controller would write."""

    def __init__(self, backends: Sequence[KubeBackend], site: GatewaySite) -> None:
        self.backends = backends
        self.backend = backends[0]
        self.site = site

    async def run(self, name: str) -> None:
        self.site.report(name, phase="Running", firstSyncTime="2026-01-01T00:00:00Z")

        async def is_known() -> bool:
            cluster = await self.backend.get_cluster(name)
            return cluster.status is PublicStatus.RUNNING

        await eventually(is_known)

    async def token(self, name: str) -> str:
        return self.site.master(name)["api-token"]

    async def control(self) -> None:
        """Be the controller of what is to stop, for ever."""
        while True:
            await asyncio.to_thread(self.site.end_stopped)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(*backends: KubeBackend) -> AsyncIterator[None]:
    """Keep backends set up."""
    started = []
    try:
        for backend in backends:
            await backend.setup(web.Application())
            started.append(backend)
        yield
    finally:
        for backend in reversed(started):
            await backend.cleanup()


@asynccontextmanager
async def kube_subject(
    site: GatewaySite, policy: Policy, *, servers: int = 1
) -> AsyncIterator[KubeSubject]:
    """Yield API servers on one Kubernetes, with a controller that ends clusters."""
    backends = [site.make_backend(policy) for _ in range(servers)]
    subject = KubeSubject(backends, site)
    async with running(*backends), asyncio.TaskGroup() as group:
        controller = group.create_task(subject.control())
        try:
            yield subject
        finally:
            controller.cancel()
