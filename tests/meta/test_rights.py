"""The comparison of rights itself: it finds what is planted."""

import json

import pytest

from tests.support import rights
from tests.support.rights import Role, find_problems, find_uses

CHART, COMPARED = rights.RBAC, rights.ROLES
ROLE = Role("role.yaml", "controller", is_own=False)
RULES = """
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, create]
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [mine]
    verbs: [get]
"""


@pytest.fixture(autouse=True)
def chart(tmp_path, monkeypatch):
    (tmp_path / "role.yaml").write_text(RULES)
    monkeypatch.setattr(rights, "RBAC", tmp_path)
    monkeypatch.setattr(rights, "ROLES", (ROLE,))


def ask(verb: str, resource: str, namespace: str = "team", **more) -> bytes:
    target = {"resource": resource, "namespace": namespace, "name": more.get("name")}
    event = {
        "user": {"username": more.get("user", "system:serviceaccount:home:controller")},
        "objectRef": {key: value for key, value in target.items() if value},
        "verb": verb,
        "annotations": {"authorization.k8s.io/decision": more.get("decision", "allow")},
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


EVERYTHING = (
    ask("get", "pods"),
    ask("create", "pods"),
    ask("get", "configmaps", name="mine"),
)


def problems(*lines: bytes) -> list[str]:
    return list(find_problems(find_uses(lines), (ROLE,)))


def test_rights_that_were_all_used_are_no_problem():
    assert problems(*EVERYTHING) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (0, "role.yaml: nobody used get pods"),
        (1, "role.yaml: nobody used create pods"),
        (2, "role.yaml: nobody used get configmaps mine"),
    ],
)
def test_a_right_that_nobody_used_is_named(line, told):
    assert problems(*(e for n, e in enumerate(EVERYTHING) if n != line)) == [told]


@pytest.mark.parametrize(
    "other",
    [
        {"name": "another"},
        {"name": "mine", "user": "system:serviceaccount:home:gateway"},
        {"name": "mine", "user": "system:admin"},
        {"name": "mine", "namespace": "home"},
        {"name": "mine", "decision": "forbid", "namespace": "forbidden-1"},
    ],
)
def test_another_use_is_not_taken_for_it(other):
    found = problems(*EVERYTHING[:2], ask("get", "configmaps", **other))
    assert found == ["role.yaml: nobody used get configmaps mine"]


def test_every_role_of_the_chart_is_compared():
    files = {path.name for path in CHART.glob("*.yaml")}
    assert files <= {role.file for role in COMPARED}
