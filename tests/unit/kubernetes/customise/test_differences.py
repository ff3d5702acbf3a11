"""The difference that a change makes: each field by its own path."""

import pytest

from backends.kubernetes.customise.differences import (
    ChangeKind,
    find_changes,
    is_same,
    list_leaves,
)
from backends.kubernetes.customise.fields import UNKNOWN, Shape, shape_of
from backends.kubernetes.customise.loading import LoadProblem
from backends.kubernetes.customise.paths import (
    Item,
    ItemPattern,
    format_path,
    is_covered,
)
from backends.kubernetes.customise.policy import parse_rules

POD = {"apiVersion": "v1", "kind": "Pod"}
A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}


def changes(before, after):
    shape = shape_of(POD, {}).enter("spec")
    found = find_changes(before, after, shape)
    return [(format_path(path), str(kind)) for path, kind in found]


def env(*variables):
    return {"containers": [{"name": "c", "env": list(variables)}]}


CHANGES = [
    pytest.param(
        {"tolerations": [{"key": "a", "value": "b"}]},
        {"tolerations": [{"value": "b", "key": "a"}]},
        [],
        id="written-otherwise",
    ),
    pytest.param({"a": 1}, {"a": 1}, [], id="none"),
    pytest.param(
        {"hostname": "a"}, {"hostname": "b"}, [("hostname", "replaced")], id="value"
    ),
    pytest.param({"x": 1}, {"x": True}, [("x", "replaced")], id="type"),
    pytest.param({"x": 1}, {"x": 1.0}, [("x", "replaced")], id="number"),
    pytest.param({"x": {"a": {}}}, {}, [("x", "removed")], id="removed-at-the-top"),
    pytest.param(
        {},
        {"x": {"a": 1, "b": {}}},
        [("x.a", "added"), ("x.b", "added")],
        id="added-leaves",
    ),
    pytest.param(
        env(A), env(B, A), [("containers[c].env[B].value", "added")], id="item"
    ),
    pytest.param(
        env(A, B), env(B), [("containers[c].env[A]", "removed")], id="item-removed"
    ),
    pytest.param(
        env(A, B), env(B, A), [("containers[c].env", "reordered")], id="order"
    ),
    pytest.param(
        env(A),
        env({**A, "value": "2"}),
        [("containers[c].env[A].value", "replaced")],
        id="in",
    ),
    pytest.param(
        env(), env({"name": "B"}), [("containers[c].env[B]", "added")], id="bare"
    ),
    pytest.param(env(A), env(A, A), [("containers[c].env", "replaced")], id="twice"),
    pytest.param(env(A), env("A"), [("containers[c].env", "replaced")], id="no-map"),
    pytest.param(
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        [("tolerations", "replaced")],
        id="list-as-one",
    ),
    pytest.param(
        {"tolerations": []},
        {"tolerations": {}},
        [("tolerations", "replaced")],
        id="kind",
    ),
]


@pytest.mark.parametrize(("before", "after", "want"), CHANGES)
def test_a_difference_names_each_field(before, after, want) -> None:
    assert changes(before, after) == want


def test_a_port_is_told_apart_by_its_number_and_protocol() -> None:
    def pod(*ports):
        return {"containers": [{"name": "c", "ports": list(ports)}]}

    found = changes(
        pod({"containerPort": 1}),
        pod(
            {"containerPort": True},
            {"containerPort": 1, "protocol": "UDP", "name": "x"},
        ),
    )

    assert found == [
        ("containers[c].ports[True/TCP].containerPort", "replaced"),
        ("containers[c].ports[1/UDP].name", "added"),
    ]


def test_values_are_the_same_only_if_their_types_are() -> None:
    assert is_same({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    assert not is_same([1], [1, 2])
    assert not is_same({"a": 1}, {"b": 1})
    assert not is_same(False, 0)  # noqa: FBT003 - the value that is compared


def test_leaves_of_a_value_that_has_no_parts_are_the_value_itself() -> None:
    assert list(list_leaves("x", UNKNOWN, ("a",))) == [("a",)]
    assert list(list_leaves([{"a": 1}], UNKNOWN)) == [()]


C = Item((("name", "c"),))
PORT = Item((("port", 80), ("protocol", "TCP")))


@pytest.mark.parametrize(
    ("rule", "path", "want"),
    [
        pytest.param(("spec", "a"), ("spec", "a"), True, id="equal"),
        pytest.param(("spec", "a"), ("spec", "a", "b"), True, id="within"),
        pytest.param(("spec", "a"), ("spec",), False, id="above"),
        pytest.param(("spec", "a*"), ("spec", "abc"), True, id="glob"),
        pytest.param(
            ("metadata", "labels", "team"),
            ("metadata", "labels", "team.x"),
            False,
            id="dot",
        ),
        pytest.param(("a", "*"), ("a", C), False, id="glob-is-no-item"),
        pytest.param(("a", ItemPattern((("name", "c"),))), ("a", C), True, id="item"),
        pytest.param(
            ("a", ItemPattern((("name", "d"),))), ("a", C), False, id="other-item"
        ),
        pytest.param(
            ("a", ItemPattern((("x", "*"),))), ("a", C), False, id="other-field"
        ),
        pytest.param(
            ("a", ItemPattern((("name", "*"),))), ("a", "c"), False, id="no-item"
        ),
        pytest.param(
            ("a", ItemPattern((("port", "8?"),))), ("a", PORT), True, id="number"
        ),
    ],
)
def test_a_rule_covers_steps_and_not_text(rule, path, want) -> None:
    assert is_covered(path, rule) is want


def test_a_path_shows_indexes_and_odd_names() -> None:
    assert format_path(("a", 0, "b c", PORT, "$patch")) == "a[0][b c][80/TCP].$patch"


def test_kinds_of_change_read_as_words() -> None:
    assert [str(kind) for kind in ChangeKind] == [
        "added",
        "removed",
        "replaced",
        "reordered",
    ]


def test_rules_of_a_configuration_are_paths() -> None:
    rules = parse_rules([["spec", "containers", {"name": "*"}, "image"]])

    assert rules == (("spec", "containers", ItemPattern((("name", "*"),)), "image"),)


@pytest.mark.parametrize(
    "value",
    [
        "spec",
        ["spec"],
        [["spec"]],
        [["*", "x"]],
        [["spec", ""]],
        [["spec", {}]],
        [["spec", {"name": 1}]],
        [["spec", 7]],
    ],
)
def test_a_rule_that_opens_everything_or_nothing_is_refused(value) -> None:
    with pytest.raises(LoadProblem):
        parse_rules(value)


def test_a_bare_shape_knows_nothing() -> None:
    assert Shape().enter("x") is UNKNOWN
    assert UNKNOWN.item is UNKNOWN
