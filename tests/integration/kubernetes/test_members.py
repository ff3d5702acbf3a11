"""What the builders make, on a real API server that enforces Pod Security."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from backends.kubernetes.desired.blueprint import Blueprint, OwnerRef
from backends.kubernetes.desired.members import make_member
from backends.kubernetes.names import Child, WorkerRef
from tests.harness.api import KubeApi
from tests.harness.control_plane import ControlPlane
from tests.support.kube_blueprints import a_blueprint, some_credentials

pytestmark = pytest.mark.integration

RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
PLURALS = {
    "Pod": "pods",
    "Service": "services",
    "Secret": "secrets",
    "ConfigMap": "configmaps",
}


@pytest.fixture
def api(apiserver: ControlPlane) -> KubeApi:
    # They give the namespace the service account that pods are admitted with.
    apiserver.start_controllers()
    return apiserver.client()


@pytest.fixture
def blueprint(api: KubeApi, make_namespace) -> Blueprint:
    """A blueprint in a namespace of its own, with the chart's anchor in it."""
    namespace = make_namespace("restricted", labels=RESTRICTED)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = api.post(path, {"metadata": {"name": "daskfleet-anchor"}})["metadata"]
    plain = a_blueprint()
    spec = msgspec.structs.replace(plain.cluster.spec, target_namespace=namespace)
    return replace(
        plain,
        cluster=msgspec.structs.replace(plain.cluster, spec=spec),
        owner=OwnerRef("v1", "ConfigMap", owner["name"], owner["uid"]),
        anchor_uid=None,
    )


def create(api: KubeApi, manifest: dict[str, Any]) -> dict[str, Any]:
    namespace, kind = manifest["metadata"]["namespace"], PLURALS[manifest["kind"]]
    path = f"/api/v1/namespaces/{namespace}/{kind}"
    return dict(api.post(path, manifest, fieldValidation="Strict"))


def test_w37_all_is_admitted_as_restricted_and_strictly_validated(
    api: KubeApi, blueprint: Blueprint
) -> None:
    """S2."""
    anchor = create(api, make_member(blueprint, Child.ANCHOR))
    whole = replace(blueprint, anchor_uid=anchor["metadata"]["uid"])

    create(api, make_member(whole, Child.CREDENTIALS, some_credentials()))
    create(api, make_member(whole, Child.PLUGIN))
    scheduler = create(api, make_member(whole, Child.SCHEDULER))
    worker = create(api, make_member(whole, WorkerRef(0)))

    assert anchor["spec"]["clusterIP"] == "None"
    for pod in (scheduler, worker):
        (container,) = pod["spec"]["containers"]
        limits = container["resources"]["limits"]
        # What is limited and not requested is requested as limited.
        assert (
            container["resources"]["requests"]
            == limits
            == {
                "cpu": "1",
                "memory": "2147483648",
            }
        )
        assert pod["spec"]["restartPolicy"] == "Never"


def test_a_worker_pod_is_small_where_it_is_kept(
    api: KubeApi, blueprint: Blueprint
) -> None:
    """P4: at most 4.2 KB stored."""
    anchor = create(api, make_member(blueprint, Child.ANCHOR))
    whole = replace(blueprint, anchor_uid=anchor["metadata"]["uid"])

    worker = create(api, make_member(whole, WorkerRef(123)))

    # The server's notes on who wrote which field are its own, and differ by client.
    worker["metadata"].pop("managedFields")
    assert len(json.dumps(worker, separators=(",", ":"))) <= 4200
