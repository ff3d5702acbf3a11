"""Merge patches and JSON patches, by their RFCs, within bounds."""

import copy

import pytest

from backends.kubernetes.customise.json_patch import (
    apply_json,
    find_operation_problem,
)
from backends.kubernetes.customise.merge import apply_merge, copy_json
from backends.kubernetes.customise.sizes import MOST_DEPTH, check_size, measure_depth
from backends.kubernetes.customise.values import PatchFailure, Reason

# The examples of RFC 7396, appendix A.
RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("base", "patch", "want"), RFC_7396)
def test_a_merge_patch_does_what_the_rfc_says(base, patch, want) -> None:
    before = copy.deepcopy((base, patch))

    assert apply_merge(base, patch) == want
    assert (base, patch) == before


def test_a_merge_patch_shares_nothing_with_what_it_is_made_of() -> None:
    base, patch = {"a": {"b": []}, "c": {"d": []}}, {"c": {"e": []}, "f": [{}]}

    made = apply_merge(base, patch)
    made["a"]["b"].append(1)
    made["c"]["d"].append(1)
    made["c"]["e"].append(1)
    made["f"][0]["x"] = 1

    assert base == {"a": {"b": []}, "c": {"d": []}}
    assert patch == {"c": {"e": []}, "f": [{}]}


def test_all_operations_work_and_change_no_input() -> None:
    base = {"a": {"b": [1]}, "c": 1}
    operations = [
        {"op": "test", "path": "/c", "value": 1},
        {"op": "add", "path": "/a/b/-", "value": {"x": []}},
        {"op": "add", "path": "/a/b/1/x/-", "value": 5},
        {"op": "copy", "from": "/a/b/1", "path": "/d"},
        {"op": "move", "from": "/c", "path": "/e"},
        {"op": "replace", "path": "/e", "value": 2},
        {"op": "remove", "path": "/a/b/0"},
    ]
    before = copy.deepcopy((base, operations))

    made = apply_json(base, operations)

    assert made == {"a": {"b": [{"x": [5]}]}, "d": {"x": [5]}, "e": 2}
    assert apply_json(base, operations) == made
    assert (base, operations) == before


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ({"op": "test", "path": "/a", "value": True}, "the test failed"),
        ({"op": "remove", "path": "/x"}, "no such place"),
        ({"op": "add", "path": "/x/y", "value": 1}, "no such place"),
        ({"op": "add", "path": "/b/7", "value": 1}, "no such place"),
        ({"op": "add", "path": "/b/~9", "value": 1}, "no such place"),
        ({"op": "replace", "path": "", "value": 1}, "must leave a map"),
    ],
)
def test_what_fails_says_which_operation_and_quotes_no_value(operation, says) -> None:
    secret = "s3cr3t"

    with pytest.raises(PatchFailure, match=says) as failure:
        apply_json({"a": 1, "b": [secret]}, [operation])

    assert secret not in str(failure.value)


def test_row_c18_a_test_keeps_numbers_and_truth_apart() -> None:
    with pytest.raises(PatchFailure):
        apply_json({"a": 1}, [{"op": "test", "path": "/a", "value": True}])


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ("add", "must be a map"),
        ({"path": "/a"}, "op must be one of"),
        ({"op": ["add"], "path": "/a"}, "op must be one of"),
        ({"op": "patch", "path": "/a"}, "op must be one of"),
        ({"op": "remove"}, "lacks path"),
        ({"op": "add", "path": "/a"}, "lacks value"),
        ({"op": "remove", "path": "/a", "value": 1}, "value has no meaning in remove"),
        ({"op": "remove", "path": "a"}, "path must be a JSON pointer"),
        ({"op": "move", "path": "/a", "from": 1}, "from must be a JSON pointer"),
    ],
)
def test_the_form_of_an_operation_is_checked_before(operation, says) -> None:
    assert says in (find_operation_problem(operation) or "")


def test_a_sound_operation_has_no_problem() -> None:
    assert find_operation_problem({"op": "copy", "from": "", "path": "/a"}) is None


def test_an_object_may_be_deep_and_large_to_a_degree() -> None:
    deep: dict[str, object] = {}
    for _ in range(MOST_DEPTH - 1):
        deep = {"a": deep}

    check_size(deep)
    with pytest.raises(PatchFailure, match="deeper") as failure:
        check_size([deep])
    assert failure.value.reason is Reason.TOO_LARGE
    with pytest.raises(PatchFailure, match="larger than 256 KiB"):
        check_size({"a": "x" * 2**18})
    assert measure_depth(deep) == MOST_DEPTH


def test_a_copy_is_of_plain_maps_and_lists() -> None:
    assert copy_json(({"a": (1,)},)) == [{"a": [1]}]
