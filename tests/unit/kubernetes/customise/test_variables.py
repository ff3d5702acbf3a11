"""Variables: filled in texts, and never in what decides what is changed."""

import pytest

from backends.kubernetes.customise.values import NodeClass, PatchFailure, PatchType
from backends.kubernetes.customise.variables import (
    fill_variables,
    find_variable_problem,
    list_variables,
)
from tests.support.customising import a_context


def fill(body, kind=PatchType.MERGE, **values):
    return fill_variables(body, kind, {"cluster.name": "c1", **values})


def test_texts_are_filled_wherever_they_are() -> None:
    body = {
        "a": ["x-$(cluster.name)", 1, None, {"b": "$(cluster.name)$(cluster.name)"}]
    }

    assert fill(body) == {"a": ["x-c1", 1, None, {"b": "c1c1"}]}
    assert body["a"][0] == "x-$(cluster.name)"


@pytest.mark.parametrize(
    "text", ["$(HOME)", "$$(cluster.name)", "$(a b.c)", "$(cluster", "$()", "$"]
)
def test_what_is_kubernetes_own_is_left_alone(text) -> None:
    assert fill({"a": text}) == {"a": text}


def test_of_an_operation_only_the_value_is_filled() -> None:
    text = "$(cluster.name)"
    operation = {"op": "add", "path": f"/metadata/labels/{text}", "value": [text]}

    assert fill([operation], PatchType.JSON) == [{**operation, "value": ["c1"]}]


def test_a_directive_is_not_filled() -> None:
    body = {"$patch": "$(cluster.name)", "$retainKeys": ["$(cluster.name)"]}

    assert fill(body, PatchType.STRATEGIC) == body


def test_a_name_cannot_become_structure() -> None:
    hostile = '"}, "hostNetwork": true, {"a": "'

    made = fill({"a": "$(user.name)"}, **{"user.name": hostile})

    assert made == {"a": hostile}


def test_a_value_is_not_filled_again() -> None:
    with pytest.raises(PatchFailure, match="must not hold"):
        fill({"a": "$(user.name)"}, **{"user.name": "$(cluster.name)"})


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        ({"a": ["$(user.x)"]}, ("a", 0), "is no variable; there are cluster.name"),
        ({"x-$(user.name)": 1}, ("x-$(user.name)",), "not in names"),
    ],
)
def test_a_variable_that_is_none_is_found_when_it_is_loaded(body, path, says) -> None:
    found = find_variable_problem(body, PatchType.MERGE)

    assert found is not None
    assert found[0] == path
    assert says in found[1]


def test_a_sound_body_has_no_problem() -> None:
    assert find_variable_problem({"a": "$(user.name)"}, PatchType.MERGE) is None


def test_a_context_has_a_class_or_not() -> None:
    with_class = a_context(node_class=NodeClass("gpu"))

    assert list_variables(with_class)["node.class"] == "gpu"
    assert "node.class" not in list_variables(a_context())
