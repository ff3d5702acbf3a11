"""Which members a patch is for."""

import pytest

from backends.kubernetes.customise.fields import is_typed
from backends.kubernetes.customise.selectors import find_equal_classes, has_term
from backends.kubernetes.customise.targets import (
    is_target,
    list_components,
    read_target,
)
from backends.kubernetes.customise.values import (
    Member,
    NodeClass,
    Requirement,
    Target,
    TargetComponent,
)
from tests.support.customising import a_context, a_member, every_member

CONTEXT = a_context(
    namespace_labels={"tier": "science", "x": "y"},
    node_class=NodeClass("gpu", {"arch": "amd64", "memory": "64"}),
)
WORKER_NAME = "c0123456789abcdef0123-worker-7"

MATCHES = [
    pytest.param({"component": "worker"}, True, id="component"),
    pytest.param({"component": ["scheduler"]}, False, id="other-component"),
    pytest.param({"component": "*"}, True, id="any-component"),
    pytest.param({"kind": "Pod"}, True, id="kind"),
    pytest.param({"kind": "Service"}, False, id="other-kind"),
    pytest.param({"kind": "*", "group": ""}, True, id="group"),
    pytest.param({"kind": "*", "group": "traefik.io"}, False, id="other-group"),
    pytest.param({"kind": "Pod", "name": WORKER_NAME}, True, id="name"),
    pytest.param({"kind": "Pod", "name": "*-worker-?"}, True, id="row-c4-glob"),
    pytest.param({"kind": "Pod", "name": "c0"}, False, id="row-c4-anchored"),
    pytest.param({"kind": "Pod", "name": "*[a-z]*"}, False, id="no-class"),
    pytest.param(
        {"kind": "Pod", "namespaces": {"names": ["team-*"]}},
        True,
        id="row-c16-namespace",
    ),
    pytest.param(
        {"kind": "Pod", "namespaces": {"names": ["team"]}}, False, id="namespace"
    ),
    pytest.param(
        {"kind": "Pod", "namespaces": {"matchLabels": {"tier": "science"}}},
        True,
        id="labels",
    ),
    pytest.param(
        {
            "kind": "Pod",
            "namespaces": {"names": ["team-*"], "matchLabels": {"tier": "dev"}},
        },
        False,
        id="both",
    ),
    pytest.param({"kind": "Pod", "users": {"names": ["al*"]}}, True, id="user"),
    pytest.param(
        {"kind": "Pod", "users": {"groups": ["staff"]}}, True, id="user-group"
    ),
    pytest.param(
        {"kind": "Pod", "users": {"names": ["bob"], "groups": ["staff"]}},
        True,
        id="either",
    ),
    pytest.param(
        {"kind": "Pod", "users": {"names": ["bob"], "groups": ["x"]}},
        False,
        id="neither",
    ),
    pytest.param(
        {"kind": "Pod", "nodeClass": ["gpu", "arm"]}, True, id="row-c13-class"
    ),
    pytest.param({"kind": "Pod", "nodeClass": ["arm"]}, False, id="row-c13-other"),
]


@pytest.mark.parametrize(("target", "want"), MATCHES)
def test_each_part_of_a_target_narrows_it(target, want) -> None:
    found = read_target(target, ("target",), {"gpu", "arm"})

    assert is_target(found, a_member(), CONTEXT) is want


def test_a_member_with_a_generated_name_is_matched_by_what_it_begins_with() -> None:
    manifest = {"kind": "Pod", "metadata": {"generateName": "dask-worker-"}}
    member = Member(TargetComponent.WORKER, manifest)

    assert is_target(Target(name="dask-worker-*"), member, CONTEXT)
    assert not is_target(Target(name="dask-worker"), member, CONTEXT)


def test_without_a_class_no_class_matches_and_absent_labels_do() -> None:
    bare = a_context()
    absent = (Requirement("arch", "DoesNotExist"),)

    assert not is_target(Target(node_classes=frozenset({"gpu"})), a_member(), bare)
    assert is_target(Target(terms=(absent,)), a_member(), bare)
    assert not is_target(Target(terms=(absent,)), a_member(), CONTEXT)


def need(operator, *values, label="arch"):
    return Requirement(label, operator, values)


# Row C14. The labels: arch=amd64, memory=64, big=9223372036854775808.
TERMS = [
    ((need("In", "arm64", "amd64"),), True),
    ((need("In", "arm64"),), False),
    ((need("In", "x", label="none"),), False),
    ((need("NotIn", "arm64"),), True),
    ((need("NotIn", "amd64"),), False),
    ((need("NotIn", "x", label="none"),), True),
    ((need("Exists"),), True),
    ((need("Exists", label="none"),), False),
    ((need("DoesNotExist"),), False),
    ((need("DoesNotExist", label="none"),), True),
    ((need("Gt", "63", label="memory"),), True),
    ((need("Gt", "64", label="memory"),), False),
    ((need("Lt", "65", label="memory"),), True),
    ((need("Lt", "64", label="memory"),), False),
    ((need("Gt", "0"),), False),
    ((need("Lt", "9"),), False),
    ((need("Gt", "0", label="none"),), False),
    ((need("Gt", "0", label="big"),), False),
    ((need("Exists"), need("Exists", label="none")), False),
    ((need("Exists"), need("NotIn", "x")), True),
    ((), False),
]


@pytest.mark.parametrize(("term", "want"), TERMS)
def test_a_term_means_what_it_means_to_the_scheduler(term, want) -> None:
    labels = {"arch": "amd64", "memory": "64", "big": str(2**63)}

    assert has_term([term], labels) is want
    assert has_term([(), term], labels) is want
    assert has_term([(need("Exists"),), term], labels)


def test_no_terms_match_nothing() -> None:
    assert not has_term([], {"a": "b"})


def test_classes_that_no_term_can_tell_apart_are_found() -> None:
    one, two = NodeClass("one", {"a": "b"}), NodeClass("two", {"a": "c"})

    assert find_equal_classes([one, two]) is None
    assert find_equal_classes([one, two, NodeClass("three", {"a": "b"})]) == (
        "one",
        "three",
    )


@pytest.mark.parametrize("member", every_member(), ids=lambda m: m.component)
def test_the_closed_set_of_kinds_is_what_is_really_made(member) -> None:
    found = list_components(Target(kind=member.manifest["kind"]))
    group = member.manifest["apiVersion"].rpartition("/")[0]

    assert member.component in found
    assert member.component in list_components(Target(group=group))
    assert is_typed(member.manifest) is (group != "traefik.io")
