"""Strategic merge patches come out as kubectl's do, on pods and patches at random."""

from collections import Counter
from typing import Any

import pytest

from backends.kubernetes.customise.fields import shape_of
from backends.kubernetes.customise.json_patch import apply_json
from backends.kubernetes.customise.merge import apply_merge
from backends.kubernetes.customise.strategic import apply_strategic
from tests.support.kubectl_patch import compare, patch_locally

pytestmark = pytest.mark.integration

# Of the cases most must be ones that upstream gets right, or nothing is compared.
LEAST_EQUAL = 0.6


def compare_all(seeds: range, pods: int) -> Counter[str]:
    total: Counter[str] = Counter()
    problems: list[str] = []
    for seed in seeds:
        counts, different = compare(seed, pods)
        total += counts
        problems += different

    assert not problems, "\n".join([str(total), *problems[:3]])
    assert total["equal"] > LEAST_EQUAL * total.total(), total
    return total


def test_two_hundred_cases_come_out_as_kubectl_has_them() -> None:
    compare_all(range(20), pods=10)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_ten_thousand_cases_come_out_as_kubectl_has_them() -> None:
    total = compare_all(range(1000, 1500), pods=20)

    assert total["both refuse"], total


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "1"}},
    "spec": {
        "containers": [{"name": "c", "image": "i", "args": ["1"]}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}


def test_a_new_sidecar_comes_first_as_it_does_with_kubectl() -> None:
    patch = {"spec": {"containers": [{"name": "side", "image": "s"}]}}

    made, _ = patch_locally([POD], patch, "strategic")

    assert made["p"] == apply_strategic(POD, patch, shape_of(POD, {}))
    assert [c["name"] for c in made["p"]["spec"]["containers"]] == ["side", "c"]


def test_merge_and_json_patches_come_out_as_kubectl_has_them() -> None:
    merge = {"metadata": {"labels": None}, "spec": {"tolerations": []}}
    operations = [
        {"op": "test", "path": "/spec/containers/0/name", "value": "c"},
        {"op": "add", "path": "/spec/containers/0/args/-", "value": "2"},
        {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
        {"op": "remove", "path": "/spec/tolerations/0"},
    ]

    merged, _ = patch_locally([POD], merge, "merge")
    changed, _ = patch_locally([POD], operations, "json")

    assert merged["p"] == apply_merge(POD, merge)
    assert changed["p"] == apply_json(POD, operations)


def test_a_port_of_another_protocol_is_added_where_kubectl_changes_the_first() -> None:
    """Row P11: upstream's key is too coarse, and ours is not."""
    port = {"containerPort": 8786, "protocol": "TCP"}
    pod = {**POD, "spec": {"containers": [{"name": "c", "ports": [port]}]}}
    udp = {"containerPort": 8786, "protocol": "UDP"}
    patch = {"spec": {"containers": [{"name": "c", "ports": [udp]}]}}

    made, _ = patch_locally([pod], patch, "strategic")
    ours = apply_strategic(pod, patch, shape_of(pod, {}))

    assert made["p"]["spec"]["containers"][0]["ports"] == [udp]
    assert ours["spec"]["containers"][0]["ports"] == [udp, port]
