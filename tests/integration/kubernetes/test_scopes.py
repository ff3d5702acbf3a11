"""Controllers that serve namespaces by label, or all, under the chart's ClusterRole."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.control_plane import ControlPlane
from tests.support.audit import find_refused
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.rights import ANCHOR, read_rules

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kubelet"),
]

WITHIN = 60.0
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LABEL = "daskfleet.io/clusters"


@pytest.fixture
def site(plane: ControlPlane, make_namespace, tmp_path) -> Iterator[Site]:
    home = make_namespace("gateway")
    made = Site(plane, home, (), tmp_path)
    made.targets = ("no-such-namespace",)  # no Role is given in any
    kinds = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    made.api.apply(
        {**kinds, "kind": "ClusterRole", "metadata": {"name": ANCHOR}},
        {
            **kinds,
            "kind": "ClusterRole",
            "metadata": {"name": home},
            "rules": read_rules("controller-everywhere.yaml"),
        },
        {
            **kinds,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": home},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": home,
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "controller", "namespace": home}
            ],
        },
    )
    yield made
    made.close()
    for kind in ("clusterrolebindings", "clusterroles"):
        made.api.delete(f"{RBAC}/{kind}/{home}")


def label(site: Site, namespace: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {LABEL: value}}}
    site.api.patch(f"/api/v1/namespaces/{namespace}", patch)


async def runs(site: Site, name: str, target: str, workers: int = 1) -> None:
    await eventually(lambda: site.pods(name, target), within=WITHIN)
    site.sync(name)

    def check() -> bool:
        status = site.status(name)
        ready = status.get("workers", {}).get("ready")
        assert (status.get("phase"), ready) == ("Running", workers), status
        return True

    await eventually(check, within=WITHIN)


async def is_not_served(site: Site, name: str, target: str) -> None:
    def check() -> bool:
        status = site.status(name)
        assert f"does not serve namespace {target}" in status.get("message", ""), status
        return True

    await eventually(check, within=WITHIN)
    assert site.pods(name, target) == []


def list_left(site: Site, target: str) -> list[str]:
    labels = "daskfleet.io/cluster"
    return [
        item["metadata"]["name"]
        for kind in ("pods", "services", "secrets")
        for item in site.api.items(
            f"/api/v1/namespaces/{target}/{kind}", labelSelector=labels
        )
    ]


def owners(site: Site, target: str, cluster: str) -> list[Any]:
    anchor = site.api.get(f"/api/v1/namespaces/{target}/services/dask-{cluster}")
    return [(o["kind"], o["name"]) for o in anchor["metadata"]["ownerReferences"]]


async def test_namespaces_are_served_by_their_label_as_it_comes_and_goes(
    site: Site, make_namespace, audit
) -> None:
    mark = audit.mark()
    one = make_namespace("team-a", labels={LABEL: "yes"})
    other = make_namespace("team-b", labels={LABEL: "no"})
    site.start_controller(namespaces=[], namespace_selector=f"{LABEL}=yes")
    site.make_cluster("c1", 1, targetNamespace=one)
    site.make_cluster("c2", 1, targetNamespace=other)
    await runs(site, "c1", one)
    await is_not_served(site, "c2", other)
    assert owners(site, one, "c1") == [("ClusterRole", ANCHOR)]

    label(site, other, "yes")
    await runs(site, "c2", other)

    # What runs goes on, and grows; nothing new comes.
    label(site, one, None)
    site.make_cluster("c3", 1, targetNamespace=one)
    await is_not_served(site, "c3", one)
    site.scale("c1", 3)
    await runs(site, "c1", one, 3)
    site.api.patch(site.path("c1"), {"spec": {"active": False}})
    assert await eventually(lambda: not list_left(site, one), within=WITHIN)
    assert find_refused(audit.since(mark, user=site.account.user)) == []


async def test_all_namespaces_are_served_and_go_with_their_one_owner(
    site: Site, make_namespace, audit
) -> None:
    mark = audit.mark()
    targets = make_namespace("team-a"), make_namespace("team-b")
    controller = site.start_controller(namespaces=[])
    for number, target in enumerate(targets):
        site.make_cluster(f"c{number}", 1, targetNamespace=target)
    site.make_cluster("nowhere")
    for number, target in enumerate(targets):
        await runs(site, f"c{number}", target)

    def is_told() -> bool:
        status = site.status("nowhere")
        assert "no-such-namespace" in status.get("message", ""), status
        return True

    assert await eventually(is_told, within=WITHIN)
    refused = find_refused(audit.since(mark, user=site.account.user))
    assert refused == []

    # As `helm uninstall` does, with nobody left to act.
    controller.kill()
    site.api.delete(f"{RBAC}/clusterroles/{ANCHOR}")

    def is_empty() -> bool:
        return not any(list_left(site, target) for target in targets)

    assert await eventually(is_empty, within=WITHIN)
