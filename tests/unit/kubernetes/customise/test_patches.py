"""Lists of patches: what is read, and each problem with its place and its remedy."""

import json

import pytest

from backends.kubernetes.customise.patches import (
    LoadSettings,
    load_patches,
    parse_patches,
)
from backends.kubernetes.customise.values import (
    PatchType,
    Phase,
    Requirement,
    TargetComponent,
)
from tests.support.customising import ADMIN, TENANT

TEXT = """
patches:
- name: gpu-toleration
  phase: enforce
  order: 7
  required: true
  allowUnsafe: true
  target:
    component: [worker, anchor]
    kind: Pod
    group: ""
    name: "dask-*"
    nodeClass: [gpu]
    nodeSelectorTerms:
    - matchExpressions:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
    namespaces: {names: ["team-*"], matchLabels: {tier: science}}
    users: {names: [alice], groups: [gpu-users]}
  type: strategic
  patch: |
    spec:
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
"""
SETTINGS = LoadSettings(frozenset({"gpu", "arm"}))
SOUND = {
    "name": "a",
    "target": {"component": ["worker"]},
    "type": "merge",
    "patch": {"metadata": {"labels": {"a": "b"}}},
}


def problems_of(value, source=ADMIN, settings=SETTINGS):
    loaded = parse_patches(value, source, settings)
    assert not loaded.patches or not loaded.problems
    return [problem.format() for problem in loaded.problems]


def problem_of(source=ADMIN, settings=SETTINGS, **changes):
    (found,) = problems_of([{**SOUND, **changes}], source, settings)
    return found


def test_a_patch_is_read_whole() -> None:
    loaded = load_patches(TEXT, ADMIN, SETTINGS)

    assert not loaded.problems
    (patch,) = loaded.patches
    assert (patch.name, patch.phase, patch.order) == (
        "gpu-toleration",
        Phase.ENFORCE,
        7,
    )
    assert (patch.type, patch.source, patch.position) == (PatchType.STRATEGIC, ADMIN, 0)
    assert patch.is_required
    assert patch.allow_unsafe
    assert list(patch.body["spec"]) == ["tolerations"]
    target = patch.target
    assert target.components == {TargetComponent.WORKER, TargetComponent.SERVICE}
    assert (target.kind, target.group, target.name) == ("Pod", "", "dask-*")
    assert target.node_classes == {"gpu"}
    assert target.terms == ((Requirement("kubernetes.io/arch", "In", ("amd64",)),),)
    assert target.namespace_names == ("team-*",)
    assert target.namespace_labels == {"tier": "science"}
    assert (target.user_names, target.user_groups) == (("alice",), ("gpu-users",))
    assert "tolerations" not in repr(patch)


def test_row_c5_text_and_object_and_yaml_are_one_patch() -> None:
    body = SOUND["patch"]
    forms = (body, json.dumps(body), "metadata:\n  labels:\n    a: b\n")

    loaded = [parse_patches([{**SOUND, "patch": f}], ADMIN, SETTINGS) for f in forms]

    assert loaded[0].patches == loaded[1].patches == loaded[2].patches
    assert loaded[0].patches[0].order == 100


def test_all_problems_are_told_together_each_with_its_line() -> None:
    text = TEXT.replace("kind: Pod", "kind: pod").replace("order: 7", "order: high")
    text += "- {name: gpu-toleration, type: merge, target: {}, colour: red}\n"

    loaded = load_patches(text, ADMIN, SETTINGS)

    assert loaded.patches == ()
    told = [problem.format() for problem in loaded.problems]
    name = "patch gpu-toleration"
    assert told == [
        (
            f"config.py, line 10, {name}: target.kind: must be one of ConfigMap, "
            "IngressRoute, IngressRouteTCP, Middleware, NetworkPolicy, Pod, Secret, "
            'Service, or "*"'
        ),
        f"config.py, line 5, {name}: order: must be an integer of at most six digits",
        f"config.py, line 24, {name}: patch: is missing",
        (
            f"config.py, line 24, {name}: target: must hold component or kind; "
            'write "*" for each of them'
        ),
        f"config.py, line 24, {name}: colour: is no field; look for a spelling mistake",
        f"config.py, line 24, {name}: name: is the name of another patch",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "config.py, line 2: a: 'a' stands twice in one map"),
        ("[]", "config.py, line 1: must be a map"),
        ("patch: []", "config.py, line 1: patches: is missing"),
        (
            "patches: 7",
            "config.py, line 1: patches: must be a list of at most 64 patches",
        ),
    ],
)
def test_a_text_that_is_no_list_of_patches_says_so(text, says) -> None:
    loaded = load_patches(text, ADMIN, SETTINGS)

    assert says in [problem.format() for problem in loaded.problems]


def test_there_may_be_so_many_patches_and_no_more() -> None:
    many = [{**SOUND, "name": f"p{n}"} for n in range(65)]

    assert not problems_of(many[:64])
    assert not problems_of(many[:16], TENANT)
    assert "at most 64" in problems_of(many)[0]
    assert "at most 16" in problems_of(many[:17], TENANT)[0]


FIELDS = [
    pytest.param({"name": "Gpu"}, "name: must be 1 to 63", id="name"),
    pytest.param({"name": "a" * 64}, "name: must be 1 to 63", id="long-name"),
    pytest.param({"name": 7}, "patch #1: name: must be 1 to 63", id="no-name"),
    pytest.param({"type": "yaml"}, "strategic, merge, json", id="type"),
    pytest.param({"type": ["merge"]}, "type: must be one of", id="type-list"),
    pytest.param({"phase": "user"}, "default, enforce", id="phase"),
    pytest.param({"order": True}, "order: must be an integer", id="order"),
    pytest.param({"order": 10**6}, "six digits", id="large-order"),
    pytest.param({"required": "yes"}, "true or false", id="required"),
    pytest.param({"patch": 7}, "patch: must be a map, as its type is merge", id="body"),
    pytest.param({"patch": "a: &b 1"}, "patch.a: line 1 of it: anchors", id="text"),
    pytest.param({"patch": ""}, "patch: is empty", id="no-text"),
    pytest.param({"patch": {"a": {1: 2}}}, "patch.a: names must be texts", id="object"),
    pytest.param({"patch": {"a": "x" * 2**14}}, "16 KiB", id="large-object"),
    pytest.param({"patch": "a: " + "x" * 2**14}, "16 KiB", id="large-text"),
    pytest.param({"patch": {"a": "$(user.x)"}}, "is no variable", id="variable"),
    pytest.param({"patch": {"$(user.name)": 1}}, "not in names", id="variable-key"),
    pytest.param({"type": "json"}, "must be a list of operations", id="json"),
    pytest.param(
        {"type": "json", "patch": [{"op": "add"}]}, "patch[0]: lacks", id="operation"
    ),
    pytest.param(
        {"type": "strategic", "patch": {"$patch": "delete"}},
        "patch.$patch: must not stand at the top",
        id="row-c18-root",
    ),
    pytest.param(
        {"type": "strategic", "target": {"component": "ingress"}},
        "type: strategic needs to know how the lists of IngressRoute are merged",
        id="row-p10-strategic",
    ),
    pytest.param(
        {"type": "strategic", "target": {"kind": "*"}}, "IngressRoute", id="any"
    ),
    pytest.param({"target": []}, "target: must be a map", id="no-target"),
    pytest.param({"target": {}}, "must hold component or kind", id="row-p9-empty"),
    pytest.param(
        {"target": {"name": "*"}}, "must hold component or kind", id="name-only"
    ),
    pytest.param(
        {"target": {"component": []}}, "with 1 to 256 items", id="no-component"
    ),
    pytest.param(
        {"target": {"component": ["pod"]}}, "scheduler, worker", id="component"
    ),
    pytest.param({"target": {"component": [7]}}, "must be one of", id="number"),
    pytest.param({"target": {"kind": "Daemonset"}}, "must be one of", id="row-c3-kind"),
    pytest.param({"target": {"kind": ["Pod"]}}, "must be one of", id="kind-list"),
    pytest.param(
        {"target": {"kind": "Pod", "component": "service"}},
        "nothing that is ever",
        id="never",
    ),
    pytest.param(
        {"target": {"kind": "Pod", "group": "apps"}}, "nothing that", id="group"
    ),
    pytest.param(
        {"target": {"kind": "Pod", "name": ""}}, "name: must be a text", id="glob"
    ),
    pytest.param(
        {"target": {"kind": "Pod", "labels": {}}}, "labels: is no field", id="field"
    ),
    pytest.param(
        {"target": {"kind": "Pod", "nodeClass": ["gpv"]}},
        "there are: arm, gpu",
        id="class",
    ),
    pytest.param(
        {"target": {"kind": "Pod", "users": {}}}, "users: must not be empty", id="users"
    ),
    pytest.param(
        {"target": {"kind": "Pod", "namespaces": {"names": [""]}}},
        "namespaces.names[0]: must be a text",
        id="namespace",
    ),
    pytest.param(
        {"target": {"kind": "Pod", "namespaces": {"matchLabels": {}}}},
        "with at least one",
        id="no-labels",
    ),
    pytest.param(
        {"target": {"kind": "Pod", "namespaces": {"matchLabels": {"a b": "c"}}}},
        "name of a label",
        id="label-name",
    ),
    pytest.param(
        {"target": {"kind": "Pod", "namespaces": {"matchLabels": {"a": 1}}}},
        "namespaces.matchLabels.a: must be a text",
        id="label",
    ),
]


@pytest.mark.parametrize(("changes", "says"), FIELDS)
def test_a_field_that_is_wrong_is_named_with_the_remedy(changes, says) -> None:
    assert says in problem_of(**changes)


def term(*expressions, **more):
    terms = [{"matchExpressions": list(expressions), **more}]
    return {"target": {"kind": "Pod", "nodeSelectorTerms": terms}}


TERMS = [
    pytest.param(term(matchFields=[]), "use matchExpressions", id="row-c14-fields"),
    pytest.param(
        {"target": {"kind": "Pod", "nodeSelectorTerms": [7]}}, "a map", id="term"
    ),
    pytest.param(term(), "with 1 to 256 items", id="no-expression"),
    pytest.param(term({"key": "a"}), "operator: is missing", id="no-operator"),
    pytest.param(term({"key": "a", "operator": "in"}), "In, NotIn", id="operator"),
    pytest.param(term({"key": "a", "operator": "In"}), "must have values", id="in"),
    pytest.param(
        term({"key": "a", "operator": "In", "values": [1]}),
        "quote numbers",
        id="numbers",
    ),
    pytest.param(
        term({"key": "a", "operator": "Exists", "values": ["1"]}),
        "no values",
        id="exists",
    ),
    pytest.param(term({"key": "a", "operator": "Gt"}), "one integer", id="gt-none"),
    pytest.param(
        term({"key": "a", "operator": "Gt", "values": ["x"]}),
        "one integer",
        id="gt-text",
    ),
    pytest.param(
        term({"key": "a", "operator": "Lt", "values": ["1", "2"]}),
        "one integer",
        id="lt-two",
    ),
]


@pytest.mark.parametrize(("changes", "says"), TERMS)
def test_a_term_that_cannot_be_judged_is_refused(changes, says) -> None:
    assert says in problem_of(**changes)


def test_a_patch_that_is_no_map_is_called_after_its_place() -> None:
    assert problems_of([SOUND, "x"]) == ["config.py, patch #2: must be a map"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"phase": "enforce"}, "phase: is for admins", id="phase"),
        pytest.param({"required": False}, "required: is for admins", id="required"),
        pytest.param({"allowUnsafe": False}, "allowUnsafe: is for admins", id="unsafe"),
        pytest.param(
            {"type": "json", "patch": []},
            "json is for admins: use strategic",
            id="json",
        ),
        pytest.param({"target": {"component": "*"}}, "must be named", id="all"),
        pytest.param({"target": {"kind": "Pod"}}, "must be named", id="kind"),
        pytest.param(
            {"target": {"component": ["worker", "credentials"]}},
            "credentials cannot be changed by users",
            id="secret",
        ),
    ],
)
def test_what_is_an_admins_is_refused_to_users(changes, says) -> None:
    assert says in problem_of(TENANT, **changes)


def test_a_users_patch_that_is_no_map_is_one_problem_of_form() -> None:
    assert problems_of(["x"], TENANT) == ["DaskCluster c1, patch #1: must be a map"]


def test_strategic_is_taken_where_an_admin_declares_the_keys() -> None:
    target = {"component": ["ingress"]}
    keys = {"IngressRoute": {("spec", "routes"): ("match",)}}
    patch = {**SOUND, "type": "strategic", "target": target}

    assert not problems_of([patch], settings=LoadSettings(list_identities=keys))
