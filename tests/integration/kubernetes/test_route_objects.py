"""Route objects that the controller makes, with the chart's roles alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.control_plane import ControlPlane
from tests.harness.traefik import install_route_kinds
from tests.support.audit import find_refused
from tests.support.controllers import ANCHOR, Site, read_rules
from tests.support.eventually import eventually
from tests.support.settling import WITHIN, says

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kubelet"),
]

KINDS = ("ingressroutes", "ingressroutetcps")
TRAEFIK = "/apis/traefik.io/v1alpha1"


@pytest.fixture(scope="module")
def plane(plane: ControlPlane) -> ControlPlane:
    """The API server, which knows Traefik's kinds too."""
    api = plane.client()
    install_route_kinds(api)
    for kind in (*KINDS, "middlewares"):
        for _ in range(300):
            if api.call("GET", f"{TRAEFIK}/{kind}").is_ok:
                break
    return plane


@pytest.fixture
def site(plane: ControlPlane, make_namespace, tmp_path) -> Iterator[Site]:
    targets = make_namespace("team-a"), make_namespace("team-b")
    made = Site(plane, make_namespace("gateway"), targets, tmp_path)
    rules = read_rules("controller-target.yaml") + read_rules("controller-routes.yaml")
    for target in targets:
        made.account.grant(rules, namespace=target)
    yield made
    made.close()


def start(site: Site, **settings: object) -> Any:
    return site.start_controller(
        routes="ingressroute", proxy_prefix="/dask", **settings
    )


def routes(site: Site, target: str, kind: str) -> dict[str, Any]:
    found = site.api.items(f"{TRAEFIK}/namespaces/{target}/{kind}")
    return {item["metadata"]["name"]: item for item in found}


def names(site: Site, target: str) -> list[list[str]]:
    return [sorted(routes(site, target, kind)) for kind in KINDS]


async def runs(site: Site, name: str, target: str) -> None:
    await eventually(lambda: site.pods(name, target), within=WITHIN)
    site.sync(name)

    def check() -> bool:
        status = site.status(name)
        assert status.get("phase") == "Running", status
        return True

    await eventually(check, within=WITHIN)


async def has_no_routes(site: Site, target: str) -> None:
    def check() -> bool:
        assert names(site, target) == [[], []]
        return True

    # Where the kinds are new, the collector is late to look at them.
    await eventually(check, within=WITHIN)


async def test_routes_are_made_beside_the_pods_and_go_with_them(
    site: Site, audit
) -> None:
    mark = audit.mark()
    start(site)
    one, other = site.targets
    site.make_cluster("c1", targetNamespace=one)
    site.make_cluster("c2", targetNamespace=other)
    site.make_cluster("c3", targetNamespace=other)
    await runs(site, "c1", one)
    await runs(site, "c2", other)
    await runs(site, "c3", other)

    assert names(site, one) == [["dask-c1"]] * 2
    assert names(site, other) == [["dask-c2", "dask-c3"]] * 2
    rule = routes(site, one, "ingressroutes")["dask-c1"]["spec"]["routes"][0]
    assert (
        rule["match"] == "Path(`/dask/clusters/c1`) || PathPrefix(`/dask/clusters/c1/`)"
    )
    tcp = routes(site, other, "ingressroutetcps")["dask-c3"]["spec"]
    assert tcp["routes"][0]["match"] == "HostSNI(`daskgateway-c3`)"
    assert tcp["tls"] == {"passthrough": True}
    for target in site.targets:
        shared = routes(site, target, "middlewares")
        used = routes(site, target, "ingressroutes").values()
        asked = {
            middleware["name"]
            for route in used
            for middleware in route["spec"]["routes"][0]["middlewares"]
        }
        owners = {m["metadata"]["ownerReferences"][0]["name"] for m in shared.values()}
        assert (set(shared), owners) == (asked, {ANCHOR})

    site.api.patch(site.path("c1"), {"spec": {"active": False}})
    await has_no_routes(site, one)
    # What a cluster's end leaves is the others'.
    assert len(routes(site, one, "middlewares")) == 4
    site.api.delete(f"/api/v1/namespaces/{other}/services/dask-c2")
    site.api.delete(site.path("c3"))
    await has_no_routes(site, other)
    assert find_refused(audit.since(mark, user=site.account.user)) == []


async def test_a_controller_that_starts_anew_makes_no_second_route(site: Site) -> None:
    first = start(site)
    target = site.targets[0]
    site.make_cluster("c1")
    await runs(site, "c1", target)
    before = routes(site, target, "ingressroutes")["dask-c1"]["metadata"]["uid"]

    first.kill()
    start(site)
    site.make_cluster("c2")
    await runs(site, "c2", target)

    assert names(site, target) == [["dask-c1", "dask-c2"]] * 2
    after = routes(site, target, "ingressroutes")["dask-c1"]["metadata"]["uid"]
    assert before == after
    assert len(routes(site, target, "middlewares")) == 4


async def test_what_somebody_deletes_is_made_again_at_the_next_resync(
    site: Site,
) -> None:
    start(site, resync_period=2)
    target = site.targets[0]
    site.make_cluster("c1")
    await runs(site, "c1", target)
    shared = set(routes(site, target, "middlewares"))

    base = f"{TRAEFIK}/namespaces/{target}"
    for kind in KINDS:
        site.api.delete(f"{base}/{kind}/dask-c1")
    site.api.delete(f"{base}/middlewares/{min(shared)}")

    def is_whole() -> bool:
        assert names(site, target) == [["dask-c1"]] * 2
        assert set(routes(site, target, "middlewares")) == shared
        return True

    await eventually(is_whole, within=WITHIN)
    assert site.status("c1")["phase"] == "Running"


async def test_a_route_that_is_anothers_is_not_touched_and_told(site: Site) -> None:
    target = site.targets[0]
    foreign = {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "IngressRoute",
        "metadata": {"name": "dask-c1"},
    }
    made = site.api.post(f"{TRAEFIK}/namespaces/{target}/ingressroutes", foreign)
    start(site)
    site.make_cluster("c1")
    await eventually(lambda: site.pods("c1"), within=WITHIN)
    site.sync("c1")

    told = await says(site, "c1", "RoutesReady", "NameConflict", "is not the gateway's")
    assert told["reason"] == "NameConflict"
    found = routes(site, target, "ingressroutes")["dask-c1"]
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert "spec" not in found


async def test_a_missing_role_for_routes_is_told(
    plane: ControlPlane, make_namespace, tmp_path
) -> None:
    targets = (make_namespace("forbidden"),)
    site = Site(plane, make_namespace("gateway"), targets, tmp_path)
    try:
        start(site)
        site.make_cluster("c1")
        await eventually(lambda: site.pods("c1"), within=WITHIN)
        site.sync("c1")

        told = await says(site, "c1", "RoutesReady", "Forbidden", "traefik.io")
        assert told["reason"] == "Forbidden"
    finally:
        site.close()
