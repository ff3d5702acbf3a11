"""What holds for whatever patches there are, and for whatever text is loaded."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kubernetes.customise.differences import ChangeKind, find_changes, is_same
from backends.kubernetes.customise.fields import UNKNOWN, shape_of
from backends.kubernetes.customise.json_patch import apply_json
from backends.kubernetes.customise.loading import LoadProblem, load_document
from backends.kubernetes.customise.merge import apply_merge
from backends.kubernetes.customise.patches import LoadSettings, load_patches
from backends.kubernetes.customise.paths import Item, has_match, is_covered
from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.strategic import apply_strategic
from backends.kubernetes.customise.values import Customised, PatchFailure, Refused
from tests.support.customising import (
    ADMIN,
    OPEN,
    TENANT,
    a_context,
    a_member,
    merge,
    patches_of,
    strategic,
)
from tests.support.random_patches import random_patch, random_pod

# The nightly profile's 5,000 examples take minutes on a machine that is shared.
pytestmark = pytest.mark.timeout(1800)

names = st.sampled_from(["a", "b", "name", "spec", "env", "containers"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(["", "x", "$patch", "delete", "dask-worker", "$(user.name)"]),
)
keys = st.one_of(
    names,
    st.sampled_from(
        ["$patch", "$retainKeys", "$setElementOrder/env", "$deleteFromPrimitiveList/a"]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=12,
)
plain = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=12,
)
maps = st.dictionaries(names, plain, max_size=4)
randoms = st.randoms(use_true_random=False)

# Parts of a worker's pod that a patch may well name, sound and unsound.
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["dask-worker", "side"])},
        optional={
            "image": st.sampled_from(["i", None]),
            "args": st.lists(st.sampled_from(["1", "-m"]), max_size=2),
            "env": st.lists(
                st.fixed_dictionaries(
                    {"name": st.sampled_from(["A", "DASK_A", "dask-a"])},
                    optional={
                        "value": st.sampled_from(["1", "", None]),
                        "valueFrom": st.just(
                            {"secretKeyRef": {"name": "x", "key": "y"}}
                        ),
                        "$patch": st.sampled_from(["delete", "replace"]),
                    },
                ),
                max_size=2,
            ),
            "$patch": st.sampled_from(["delete", "replace"]),
        },
    ),
    max_size=2,
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["Pod", "Job", None]),
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": st.just("x"),
                "labels": st.one_of(st.none(), st.just({"daskfleet.io/cluster": "x"})),
                "annotations": st.dictionaries(
                    st.sampled_from(["user.daskfleet.io/a", "daskfleet.io/a", "b"]),
                    st.sampled_from(["1", None]),
                    max_size=2,
                ),
            },
        ),
        "spec": st.one_of(
            anything,
            st.fixed_dictionaries(
                {},
                optional={
                    "containers": containers,
                    "hostNetwork": st.sampled_from([True, None, "x"]),
                    "volumes": st.just([{"name": "v", "hostPath": {"path": "/"}}]),
                },
            ),
        ),
    },
)
# What everyone may set, so that not all of it is refused.
mild = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {
                "annotations": st.dictionaries(
                    st.sampled_from(["user.daskfleet.io/a", "user.daskfleet.io/b"]),
                    st.sampled_from(["1", "2", "$(user.name)"]),
                    max_size=2,
                )
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {
                            "name": st.sampled_from(["A", "B"]),
                            "value": st.sampled_from(["1", "2", ""]),
                        }
                    ),
                    max_size=2,
                ).map(lambda env: [{"name": "dask-worker", "env": env}])
            }
        ),
    },
)
strategics = st.tuples(st.just(strategic), mild)
patches_of_all = st.one_of(
    strategics,
    strategics,
    strategics,
    st.tuples(st.sampled_from([merge, strategic]), bodies),
)
patch_lists = st.lists(patches_of_all, min_size=1, max_size=3)


def read(found: list[tuple[Any, Any]], source: Any) -> list[Any]:
    whole = [kind(body) for kind, body in found]
    try:
        return patches_of(whole, source)
    except AssertionError:
        return []


@given(base=maps, patch=maps)
def test_a_merge_patch_is_idempotent_and_changes_no_input(base, patch) -> None:
    before = copy.deepcopy((base, patch))

    once = apply_merge(base, patch)

    assert apply_merge(once, patch) == once
    assert (base, patch) == before


@given(randoms)
def test_a_strategic_patch_without_directives_is_idempotent(random) -> None:
    pod, patch = random_pod(random), random_patch(random)
    patch = drop_directives(patch)
    before = copy.deepcopy((pod, patch))
    shape = shape_of(pod, {})
    try:
        once = apply_strategic(pod, patch, shape)
    except PatchFailure:
        return

    assert apply_strategic(once, patch, shape) == once
    assert (pod, patch) == before


@given(base=maps, patch=st.dictionaries(keys, anything, max_size=4))
def test_a_strategic_patch_is_applied_or_refused_and_leaves_no_directive(
    base, patch
) -> None:
    before = copy.deepcopy((base, patch))
    pod = {"apiVersion": "v1", "kind": "Pod", **base}
    for shape in (UNKNOWN, shape_of(pod, {})):
        try:
            made = apply_strategic(base, patch, shape)
        except PatchFailure:
            continue
        assert not set(list_identities(made)) & set(list_identities(patch)) & {"$patch"}
    assert (base, patch) == before


pointers = st.lists(
    st.sampled_from(
        ["a", "b", "0", "1", "-", "-1", "01", "", "~0", "~1", "~2", "spec"]
    ),
    max_size=3,
).map(lambda found: "".join(f"/{step}" for step in found))
json_operations = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "test"]),
            "path": pointers,
            "value": plain,
        }
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": pointers}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}
    ),
)


@given(base=maps, found=st.lists(json_operations, max_size=5))
def test_operations_are_applied_whole_or_refused_and_change_no_input(
    base, found
) -> None:
    before = copy.deepcopy((base, found))
    try:
        made = apply_json(base, found)
    except PatchFailure:
        made = {}

    assert isinstance(made, dict)
    json.dumps(made)
    assert (base, found) == before


@given(before=maps, after=maps)
def test_there_is_a_difference_if_and_only_if_there_is_one(before, after) -> None:
    assert (find_changes(before, after, UNKNOWN) == ()) == is_same(before, after)
    assert find_changes(before, before, UNKNOWN) == ()


@given(randoms)
def test_a_change_of_a_pod_is_where_the_difference_says(random) -> None:
    """Every field that differs is named, itself or by what holds it."""
    before, after = random_pod(random), random_pod(random)
    shape = shape_of(before, {})
    changes = find_changes(before, after, shape)

    back = find_changes(after, before, shape)
    assert bool(changes) == bool(back) == (not is_same(before, after))
    added = {c.path for c in changes if c.kind is ChangeKind.ADDED}
    gone = {c.path for c in back if c.kind is ChangeKind.REMOVED}
    assert all(any(path[: len(top)] == top for top in gone) for path in added)


@given(patch_lists)
def test_a_member_is_made_the_same_each_time_or_refused_the_same(found) -> None:
    member, patches = a_member(), read(found, ADMIN)
    before = copy.deepcopy((member.manifest, [patch.body for patch in patches]))

    one, two = (customise(member, patches, a_context()) for _ in range(2))

    assert one == two
    assert one == customise(member, patches[::-1], a_context())
    assert (member.manifest, [patch.body for patch in patches]) == before
    if isinstance(one, Customised):
        json.dumps(one.manifest)
        assert identity(one.manifest) == identity(member.manifest)


@given(patch_lists)
def test_whatever_a_tenant_sends_only_what_is_open_differs(found) -> None:
    member, patches = a_member(), read(found, TENANT)

    made = customise(member, patches, a_context(policy=OPEN))

    if isinstance(made, Refused):
        assert made.patch
        return
    shape = shape_of(member.manifest, {})
    for change in find_changes(member.manifest, made.manifest, shape):
        path = change.path
        if path[-1] == "daskfleet.io/customization-hash":
            continue
        assert any(is_covered(path, rule) for rule in OPEN.rules), path
        variables = [step for step in path if isinstance(step, Item)][1:]
        assert all(not str(v.pairs[0][1]).upper().startswith("DASK") for v in variables)


@settings(max_examples=30)
@given(patch_lists)
def test_the_hash_tells_when_the_object_differs(found) -> None:
    member, patches = a_member(), read(found, ADMIN)

    made = [
        customise(member, patches[:n], a_context()) for n in range(len(patches) + 1)
    ]

    good = [one for one in made if isinstance(one, Customised)]
    assert len({one.hash for one in good}) == len(good)


@given(st.one_of(st.text(), plain.map(json.dumps)))
def test_any_text_is_read_or_refused(text) -> None:
    try:
        found = load_document(text)
    except LoadProblem:
        return
    json.dumps(found.value)


@given(plain)
def test_json_is_read_as_json(value) -> None:
    wrapped = {"a": value}

    assert is_same(load_document(json.dumps(wrapped)).value, wrapped)
    assert is_same(load_document(json.dumps(wrapped, indent=2)).value, wrapped)


yaml_words = st.lists(
    st.one_of(
        st.sampled_from(
            ["a: ", "- ", "{", "}", "[", "]", ", ", "\n", "  ", "? ", ": "]
        ),
        st.sampled_from(["&x ", "*x", "!t ", "|", "'", '"', "#", "---", "%YAML", "\t"]),
        st.sampled_from(["1", "true", "patches:", "name: x"]),
    ),
    max_size=25,
).map("".join)


@given(yaml_words)
def test_whatever_looks_like_yaml_is_read_or_refused(text) -> None:
    for source in (ADMIN, TENANT):
        loaded = load_patches(text, source, LoadSettings())
        assert loaded.patches == () or loaded.problems == ()
        assert all(problem.format() for problem in loaded.problems)


@pytest.mark.nightly
@settings(max_examples=100_000)
@given(st.one_of(yaml_words, st.text()))
def test_no_text_makes_the_loader_fail(text) -> None:
    load_patches(text, ADMIN, LoadSettings())
    load_patches(f"patches:\n- name: a\n  patch: {text}", ADMIN, LoadSettings())


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=8))
def test_a_glob_matches_as_its_definition_says(glob, text) -> None:
    assert has_match(glob, text) is matches(glob, text)


def matches(glob: str, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return matches(glob[1:], text) or bool(text and matches(glob, text[1:]))
    return bool(text) and glob[0] in ("?", text[0]) and matches(glob[1:], text[1:])


def identity(manifest: dict[str, Any]) -> tuple[Any, ...]:
    metadata = manifest["metadata"]
    return (
        *(manifest[name] for name in ("apiVersion", "kind")),
        *(metadata[name] for name in ("name", "namespace", "ownerReferences")),
        metadata["labels"]["daskfleet.io/cluster"],
    )


def drop_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: drop_directives(v) for k, v in value.items() if k[0] != "$"}
    if isinstance(value, list):
        return [drop_directives(v) for v in value if not is_directive(v)]
    return value


def is_directive(value: Any) -> bool:
    return isinstance(value, dict) and "$patch" in value


def list_identities(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [
            *value,
            *(key for inner in value.values() for key in list_identities(inner)),
        ]
    if isinstance(value, list):
        return [key for inner in value for key in list_identities(inner)]
    return []
