"""Who may do what: every operation of the document, by everybody, on anything.

Roles and operations are taken from the OpenAPI document, so a route that is
added is tested here, or fails for want of a body in `BODIES`.
"""

from dataclasses import dataclass, replace

import pytest

from gateway.http.openapi import build_document
from tests.support.api import Answer, Api
from tests.support.builders import KEYS, a_cluster, basic, token

DOCUMENT = build_document("test")
USERS = "basic"  # the scheme that stands for all of a user's
CLUSTERS = "clusterToken"

BODIES = {
    "create_cluster": {},
    "scale_cluster": {"count": 1},
    "adapt_cluster": {"minimum": 0, "maximum": 1, "active": True},
    "sync_cluster": {"protocol": 1},
    "beat_cluster": {
        "count": 0,
        "active_workers": [],
        "closing_workers": [],
        "closed_workers": [],
    },
}
ROLES = ("nobody", "wrong", "alice", "bob", "root", "token")
TARGETS = ("own", "absent")
# Whatever of alice's cluster must not reach anybody else.
SECRETS = ("opt-of-alice", "event-of-alice", "log-of-alice", KEYS.key.strip())


@dataclass(frozen=True)
class Case:
    """One operation, asked by somebody about something."""

    path: str
    method: str
    operation: dict
    role: str = "bob"
    target: str = "own"

    def __str__(self) -> str:
        return f"{self.role} {self.method} {self.path} {self.target}"

    @property
    def id(self) -> str:
        return self.operation["operationId"]

    @property
    def body(self) -> dict:
        has_body = "requestBody" in self.operation
        return {"json": BODIES[self.id]} if has_body else {}

    @property
    def successes(self) -> set[int]:
        return {int(s) for s in self.operation["responses"] if s.startswith("2")}


OPERATIONS = [
    Case(path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
CASES = [
    replace(case, role=role, target=target)
    for case in OPERATIONS
    for role in ROLES
    for target in (TARGETS if "{name}" in case.path else TARGETS[:1])
]


def build_headers(api: Api, role: str) -> dict[str, str]:
    match role:
        case "nobody":
            return {}
        case "wrong":
            return {"Authorization": "Basic %%%"}
        case "token":
            return token(api.backend.entries["c1"].token)
        case _:
            return basic(role)


def want_statuses(case: Case) -> set[int]:
    """Return the statuses that are right, from the document."""
    schemes = {name for item in case.operation["security"] for name in item}
    if case.id == "check_visitor":
        return {404}  # no path is named
    if not schemes:
        return case.successes
    if case.role == "token":
        is_known = CLUSTERS in schemes and case.target == "own"
        return case.successes if is_known else {401}
    if case.role in {"nobody", "wrong"} or USERS not in schemes:
        return {401}
    is_hidden = case.target == "absent" or case.role == "bob"
    # A stop has no 404: it tells nothing about clusters of others.
    can_hide = "404" in case.operation["responses"]
    return {404} if is_hidden and can_hide else case.successes


@pytest.fixture
async def world(api):
    entry = api.backend.add(
        a_cluster().running().with_options(mark="opt-of-alice").build()
    )
    entry.logs["scheduler"] = ["log-of-alice"]
    return api


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_everybody_gets_what_the_document_says_and_no_more(world, case):
    before = snapshot(world)

    answer = await call(world, case)

    assert answer.status in want_statuses(case)
    assert str(answer.status) in case.operation["responses"]
    if case.role not in {"alice", "root", "token"}:
        assert not [secret for secret in SECRETS if secret in answer.text]
        assert snapshot(world) == before or case.id == "create_cluster"
    if case.role == "root":
        assert KEYS.key.strip() not in answer.text


@pytest.mark.parametrize(
    "case", [case for case in OPERATIONS if "{name}" in case.path], ids=str
)
async def test_absent_and_forbidden_look_alike(world, case):
    forbidden = await call(world, case)
    del world.backend.entries["c1"]
    absent = await call(world, case)

    assert forbidden.status == absent.status
    for key in ("error", "code"):
        assert (forbidden.json or {}).get(key) == (absent.json or {}).get(key)
    assert forbidden.headers.keys() == absent.headers.keys()


async def call(api: Api, case: Case) -> Answer:
    name = {"own": "c1", "absent": "c9"}[case.target]
    return await api.call(
        case.method.upper(),
        case.path.format(name=name),
        headers=build_headers(api, case.role),
        **case.body,
    )


def snapshot(api: Api) -> object:
    return {
        name: (entry.cluster, entry.generation, len(entry.reports))
        for name, entry in api.backend.entries.items()
    }
