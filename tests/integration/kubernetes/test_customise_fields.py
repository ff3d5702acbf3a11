"""The static table of fields is what a live API server says of them."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from backends.kubernetes.customise import field_table
from backends.kubernetes.customise.fields import Shape, shape_of
from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.values import Customised
from tests.harness.control_plane import ControlPlane
from tests.support.customising import (
    a_context,
    a_member,
    merge,
    operations,
    patches_of,
    strategic,
)
from tests.support.sources import ROOT

pytestmark = pytest.mark.integration

DOCUMENTS = ("/openapi/v3/api/v1", "/openapi/v3/apis/networking.k8s.io/v1")


@pytest.fixture(scope="module")
def documents(apiserver: ControlPlane) -> list[dict[str, Any]]:
    return [dict(apiserver.client().get(path)) for path in DOCUMENTS]


@pytest.fixture(scope="module")
def make_field_table() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "tools"))
    import make_field_table as module

    yield module
    sys.path.remove(str(ROOT / "tools"))


def test_the_table_is_what_the_tool_makes_of_this_server(
    documents, make_field_table
) -> None:
    table = make_field_table.build_table(documents)

    text = (ROOT / "backends/kubernetes/customise/field_table.py").read_text()
    assert text == make_field_table.format_table(table)
    assert len(field_table.FIELD_TABLE) < 16 * 1024


def test_each_merge_key_of_the_server_is_in_the_table(documents) -> None:
    """Counted by another way than the tool's, so that both can be wrong only once."""
    schemas = documents[0]["components"]["schemas"]
    pod = shape_of({"apiVersion": "v1", "kind": "Pod"}, {})
    seen = []

    def walk(shape: Shape, name: str) -> None:
        for field, schema in schemas[name]["properties"].items():
            inner = shape.members.get(field)
            if inner is None or name in seen:
                continue
            want = "merge" in schema.get("x-kubernetes-patch-strategy", "")
            assert inner.is_merged is want, (name, field)
            assert list(inner.identity) == schema.get("x-kubernetes-list-map-keys", [])
            items = schema.get("items", {})
            for part in (*items.get("allOf", ()), *schema.get("allOf", ()), items):
                found = part.get("$ref", "").rpartition("/")[2]
                if found in schemas and "properties" in schemas[found]:
                    walk(inner.item if items else inner, found)
        seen.append(name)

    walk(pod, "io.k8s.api.core.v1.Pod")

    assert {"io.k8s.api.core.v1.Container", "io.k8s.api.core.v1.Volume"} <= set(seen)
    assert len(seen) > 60


def test_two_definitions_with_one_short_name_are_refused(make_field_table) -> None:
    def refer(name):
        return {"$ref": f"#/components/schemas/{name}"}

    schemas: dict[str, Any] = {root: {} for root in make_field_table.ROOTS}
    schemas[make_field_table.ROOTS[0]] = {
        "properties": {"a": refer("x.Same"), "b": refer("y.Same")}
    }
    schemas |= {"x.Same": {}, "y.Same": {}}

    with pytest.raises(ValueError, match="one short name"):
        make_field_table.build_table([{"components": {"schemas": schemas}}])


TAKEN = [
    pytest.param(
        strategic(
            {
                "spec": {
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "initContainers": [{"name": "init", "image": "busybox"}],
                    "containers": [
                        {
                            "name": "side",
                            "image": "busybox",
                            "ports": [{"containerPort": 1}],
                        }
                    ],
                    "volumes": [{"name": "extra", "configMap": {"name": "x"}}],
                }
            }
        ),
        id="strategic",
    ),
    pytest.param(
        operations(
            {"op": "add", "path": "/spec/nodeSelector/disk", "value": "ssd"},
            {"op": "add", "path": "/spec/terminationGracePeriodSeconds", "value": 7},
        ),
        id="row-c1-json",
    ),
    pytest.param(merge({"spec": {"priority": 0, "hostname": "h"}}), id="merge"),
]


@pytest.mark.parametrize("patch", TAKEN)
def test_what_passes_our_checks_passes_the_servers_strictest(
    patch, apiserver: ControlPlane, make_namespace
) -> None:
    made = customise(a_member(), patches_of([patch]), a_context())
    assert isinstance(made, Customised), made
    namespace = make_namespace()
    manifest = {**made.manifest}
    manifest["metadata"] = {**manifest["metadata"], "namespace": namespace}
    path = f"/api/v1/namespaces/{namespace}/pods"

    answer = apiserver.client().post(
        path, manifest, dryRun="All", fieldValidation="Strict"
    )

    # What was asked for is there as it was asked for.
    for name, value in made.manifest["spec"].items():
        if not isinstance(value, list | dict):
            assert answer["spec"][name] == value


REFUSED = [
    pytest.param({"hostnam": "x"}, id="row-c21-unknown-field"),
    pytest.param({"hostNetwork": "yes"}, id="type"),
    pytest.param(
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        id="union",
    ),
    pytest.param(
        {"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}], "x": 1}, id="twice"
    ),
]


@pytest.mark.parametrize("spec", REFUSED)
def test_what_the_server_refuses_is_refused_before(
    spec, apiserver: ControlPlane, make_namespace
) -> None:
    member = a_member()
    made = customise(member, patches_of([strategic({"spec": spec})]), a_context())
    namespace = make_namespace()
    base = member.manifest["spec"]
    volumes = [*base["volumes"], *spec.get("volumes", [])]
    manifest = {
        **member.manifest,
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {**base, **spec, "volumes": volumes},
    }

    answer = apiserver.client().call(
        "POST",
        f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict",
        manifest,
    )

    assert not isinstance(made, Customised)
    assert answer.status in (400, 422)
