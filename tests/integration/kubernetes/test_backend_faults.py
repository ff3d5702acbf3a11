"""API servers whose calls fail, get lost or come late, and ones that are killed."""

import asyncio
import json
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from backends.kubernetes.backend.backend import KubeBackend
from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import (
    BackendError,
    ClusterNotFound,
    InvalidRequest,
    LimitExceeded,
    Rejected,
    Unavailable,
)
from gateway.domain.policy import Caps, Policy
from gateway.domain.sync import SyncReport
from tests.harness.control_plane import ControlPlane
from tests.support.controllers import Site
from tests.support.database import ALICE
from tests.support.eventually import eventually
from tests.support.fault_proxy import (
    Delay,
    DropAnswer,
    Fault,
    FaultProxy,
    Inject,
    Refuse,
    Reset,
)
from tests.support.kube_backend import GatewaySite, running
from tests.support.kubelet import StandInKubelet
from tests.support.sources import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

WATCH = "watch=1"
CAPPED = Policy(default=Caps(clusters=2, workers=50))


@pytest.fixture
def site(plane: ControlPlane, make_namespace) -> GatewaySite:
    return GatewaySite(plane, make_namespace("gateway"))


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(plane) as started:
        yield started


@pytest.fixture
def backend(site: GatewaySite, proxy: FaultProxy, tmp_path) -> KubeBackend:
    return make_backend(site, proxy, tmp_path)


def make_backend(site: GatewaySite, proxy: FaultProxy, folder, **traits: Any):
    """Return a backend whose calls all pass through ``proxy``."""
    path = folder / "kubeconfig"
    text = site.account.kubeconfig.read_text()
    path.write_text(text.replace(site.plane.url, proxy.url))
    settings = {"k8s_api_timeout": 4.0, **traits}
    return site.make_backend(CAPPED, kubeconfig=str(path), **settings)


def is_create(request) -> bool:
    return request.method == "POST" and request.path.endswith("/daskclusters")


def status(code: int, reason: str, message: str, **details: Any) -> Refuse:
    body = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return Refuse(code, json.dumps(body))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(403, "Forbidden", "policy 'p' denied: no GPUs"), Rejected),
        (
            status(404, "NotFound", "namespace", name="x", kind="namespaces"),
            Unavailable,
        ),
        (status(409, "Conflict", "modified"), Unavailable),
        (status(422, "Invalid", "spec.worker: no"), InvalidRequest),
        (Refuse(429, "slow down", {"Retry-After": "5"}), Unavailable),
        (status(500, "InternalError", "it broke"), Unavailable),
        (Delay(30), Unavailable),
    ],
)
async def test_row_33_no_failure_of_the_api_server_is_a_bare_500(
    backend, proxy, answer, kind
) -> None:
    async with running(backend):
        proxy.rule = lambda request: answer if is_create(request) else None

        with pytest.raises(BackendError if kind is not InvalidRequest else kind) as e:
            async with asyncio.timeout(20):
                await backend.start_cluster(ALICE, {})

        assert isinstance(e.value, kind)
        assert e.value.http_status in {409, 422, 503}
        proxy.rule = lambda _: None
        assert await backend.start_cluster(ALICE, {})


async def live(backend: KubeBackend) -> dict[str, Any]:
    """Live a whole life, and return what it leads to."""
    name = await backend.start_cluster(ALICE, {"size": 3})
    await backend.adapt_cluster(name, 1, 9)
    bounds = (await backend.get_wanted(name)).adaptive
    assert bounds is not None
    report = SyncReport(protocol=1, adaptive_id=bounds.id, target=5)
    wanted = [(await backend.sync(name, report)).replicas]
    await backend.end_adaptive(name)
    wanted.append((await backend.get_wanted(name)).replicas)
    await backend.scale_cluster(name, 7)
    wanted.append((await backend.get_wanted(name)).replicas)
    await backend.stop_cluster(name)
    return {"name": name, "wanted": wanted}


def is_write(request) -> bool:
    return request.method in {"POST", "PATCH"}


@pytest.mark.parametrize("fault", [DropAnswer(), Reset()], ids=["answer", "call"])
async def test_each_write_may_be_lost_once_and_the_end_is_the_same(
    proxy, plane, make_namespace, tmp_path, fault: Fault
) -> None:
    count, number = 1, 0
    while number < count:
        site = GatewaySite(plane, make_namespace("gateway"))
        backend = make_backend(site, proxy, tmp_path)
        writes = 0

        def rule(request, number: int = number) -> Fault | None:
            nonlocal writes
            writes += is_write(request)
            return fault if is_write(request) and writes == number + 1 else None

        async with running(backend):
            proxy.rule = rule
            life = await live(backend)
            proxy.rule = lambda _: None

        (found,) = site.list_objects()
        secrets = site.api.items(f"/api/v1/namespaces/{site.home}/secrets")
        assert life["wanted"] == [5, 5, 7], number
        assert found["metadata"]["name"] == life["name"]
        assert found["spec"]["active"] is False
        assert found["spec"]["workers"] == {"replicas": 7}
        assert "firstSyncTime" in found["status"]
        uid = found["metadata"]["uid"]
        assert [s["metadata"]["name"] for s in secrets] == [f"dask-master-{uid}"]
        # As many writes as there are in a life without faults, and one again.
        count, number = writes - 1, number + 1
    assert count >= 8


async def test_a_cut_watch_is_taken_up_again_and_nothing_is_missed(
    backend, proxy, site
) -> None:
    async with running(backend):
        for number in range(1, 6):
            proxy.cut()
            site.make_cluster(f"c{number}")

            async def is_known(number: int = number) -> bool:
                return len(await backend.list_clusters("alice")) == number

            await eventually(is_known)


async def test_an_expired_watch_is_listed_anew_with_what_went_meanwhile(
    backend, proxy, site
) -> None:
    site.make_cluster("stays")
    site.make_cluster("goes")
    async with running(backend):
        assert len(await backend.list_clusters("alice")) == 2
        proxy.rule = lambda r: Reset() if WATCH in r.query_string else None
        proxy.cut()
        site.api.delete(site.path("goes"))
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
        line = json.dumps({"type": "ERROR", "object": gone}).encode()
        injected: Iterator[Fault] = iter([Inject(line)])
        proxy.rule = lambda r: next(injected, None) if WATCH in r.query_string else None

        async def is_gone() -> bool:
            names = [c.name for c in await backend.list_clusters("alice")]
            return names == ["stays"]

        await eventually(is_gone)
        with pytest.raises(ClusterNotFound):
            await backend.get_cluster("goes")


async def test_strangers_names_cost_the_api_server_next_to_nothing(
    backend, proxy
) -> None:
    async with running(backend):
        proxy.seen.clear()
        for _ in range(200):
            assert not await backend.check_token("c0123456789", "guess")
            with pytest.raises(ClusterNotFound):
                await backend.get_cluster("c0123456789")
            with pytest.raises(ClusterNotFound):
                await backend.get_cluster("../secrets")

        assert proxy.count("c0123456789") < 20
        assert proxy.count("..") == 0


async def test_wrong_tokens_do_not_make_secrets_be_read_again_and_again(
    backend, proxy
) -> None:
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        proxy.seen.clear()

        for number in range(100):
            assert not await backend.check_token(name, f"guess-{number}")

        assert proxy.count("/secrets/") <= 1


_KILLED = """
import asyncio, os, signal
from aiohttp import web
from gateway.domain.policy import Caps, Policy
from tests.support.database import ALICE
from backends.kubernetes.backend.backend import KubeBackend

async def main():
    backend = KubeBackend(
        policy=Policy(default=Caps(clusters=1)),
        gateway_instance="test", kubeconfig={kubeconfig!r},
        target_namespaces=[{target!r}],
    )
    backend.make_cluster_name = lambda: "c1"
    config = backend.config.KubeClusterConfig
    config.namespace = {target!r}
    await backend.setup(web.Application())

    async def die(cluster):
        os.kill(os.getpid(), signal.SIGKILL)

    backend._run.keys.ensure = die
    await backend.start_cluster(ALICE, {{}})

asyncio.run(main())
"""


async def test_a_gateway_killed_between_cluster_and_keys_leaves_a_whole_cluster(
    plane, make_namespace, tmp_path
) -> None:
    home, target = make_namespace("gateway"), make_namespace("team")
    gateway = GatewaySite(plane, home)
    site = Site(plane, home, (target,), tmp_path)
    script = _KILLED.format(kubeconfig=str(gateway.account.kubeconfig), target=target)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(script), cwd=ROOT
    )
    assert await process.wait() == -signal.SIGKILL
    secrets = f"/api/v1/namespaces/{home}/secrets"
    assert site.api.items(secrets) == []

    backend = gateway.make_backend(Policy(default=Caps(clusters=1)))
    try:
        with StandInKubelet(plane):
            site.start_controller()
            async with running(backend):
                with pytest.raises(LimitExceeded):
                    await backend.start_cluster(ALICE, {})
                await eventually(lambda: site.api.items(secrets), within=60)
                token = gateway.master("c1")["api-token"]
                assert await backend.check_token("c1", token)
                await eventually(lambda: site.pods("c1"), within=60)
                await backend.sync("c1", SyncReport(protocol=1))

                async def runs() -> bool:
                    cluster = await backend.get_cluster("c1")
                    return cluster.status is PublicStatus.RUNNING

                await eventually(runs, within=60)
                assert (await backend.get_cluster("c1")).client is not None
                await backend.stop_cluster("c1")

                async def is_over() -> bool:
                    cluster = await backend.get_cluster("c1")
                    return cluster.status is PublicStatus.STOPPED

                await eventually(is_over, within=60)
                assert (await backend.get_cluster("c1")).reason == "StoppedByUser"
    finally:
        site.close()
