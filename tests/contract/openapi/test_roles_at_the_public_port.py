"""Who may do what, asked of a real gateway through its public port.

Everybody asks for everything: what is not there and what is not theirs look alike,
in status, body and headers, on the routes of the document and on dashboards.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from gateway.http.openapi import build_document
from tests.support.builders import basic, token
from tests.support.eventually import eventually
from tests.support.rest import Reply, Rest, calling
from tests.support.stack import PASSWORD, Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# One cluster each, and none for the admin: what creates is refused, after the login.
CONFIG = """
c.SimpleAuthenticator.admin_users = {"root"}
c.UserPolicy.users = {
    "alice": {"clusters": 1}, "bob": {"clusters": 1}, "root": {"clusters": 0}
}
"""
DOCUMENT = build_document("test")
BODIES: Mapping[str, Any] = {
    "create_cluster": {},
    "scale_cluster": {"count": 0},
    "adapt_cluster": {"minimum": 0, "maximum": 0, "active": True},
    "sync_cluster": {"protocol": 1},
    "beat_cluster": {
        "count": 0,
        "active_workers": [],
        "closing_workers": [],
        "closed_workers": [],
    },
}
# A token is alice's cluster's own.
ROLES = ("nobody", "wrong", "wrong-token", "alice", "bob", "root", "token")
TARGETS = ("alice's", "bob's", "absent")
# As long as a real one, so that lengths tell nothing either.
ABSENT = "0123456789abcdef0123456789abcdef"
GUESSES = count()
VARYING = {"date", "x-request-id", "set-cookie"}


@dataclass(frozen=True)
class Operation:
    """One thing to ask for; ``answers`` are its statuses for who may."""

    method: str
    path: str
    id: str
    schemes: frozenset[str]
    answers: frozenset[int]
    hides_by: int = 404

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def read_operations() -> list[Operation]:
    """Return what the document has and the proxy serves, and the dashboards."""
    found = [
        Operation(
            method.upper(),
            path,
            operation["operationId"],
            frozenset(name for item in operation["security"] for name in item),
            frozenset(int(s) for s in operation["responses"] if s.startswith("2")),
            404 if "404" in operation["responses"] else 204,
        )
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/api/")
    ]
    return [o for o in found if o.id != "check_visitor"]


OPERATIONS = read_operations()
OF_CLUSTERS = [o for o in OPERATIONS if "{name}" in o.path]
DASHBOARDS = [
    Operation(method, path, "dashboard", frozenset({"basic"}), frozenset({200, 302}))
    for method, path in (
        ("GET", "/clusters/{name}/status"),
        ("GET", "/clusters/{name}"),
        ("GET", "/clusters/{name}/login/not-a-link/status"),
        ("POST", "/clusters/{name}/status"),
        ("HEAD", "/clusters/{name}/status"),
    )
]


@dataclass
class World:
    """A gateway with a running cluster of alice's and one of bob's."""

    rest: Rest
    names: dict[str, str]
    tokens: dict[str, str]

    async def ask(self, operation: Operation, role: str, target: str, **extra: str):
        """Send the call of ``role`` about the cluster of ``target``."""
        body = BODIES.get(operation.id)
        # Whoever guesses is made to wait, by their address: take a fresh one.
        source = f"127.1.0.{next(GUESSES) % 250 + 1}" if role == "wrong" else None
        async with calling(self.rest.address, source) as rest:
            return await rest.call(
                operation.method,
                operation.path.format(name=self.names[target]),
                user=None,
                headers={**self.login(role), **extra},
                **({} if body is None else {"json": body}),
            )

    def login(self, role: str) -> dict[str, str]:
        match role:
            case "nobody":
                return {}
            case "wrong":
                return basic("alice", "guessed")
            case "wrong-token":
                return token("guessed-by-somebody")
            case "token":
                return token(self.tokens["alice's"])
            case _:
                return basic(role, PASSWORD)

    def mask(self, reply: Reply, target: str) -> tuple[int, str, list[str]]:
        """Return all of an answer that may tell something but the asked-for name."""
        name = self.names[target]
        text = reply.text.replace(name, "NAME")
        if reply.json is not None and "request_id" in reply.json:
            text = text.replace(reply.json["request_id"], "ID")
        kept = {k.lower(): v.replace(name, "NAME") for k, v in reply.headers.items()}
        shown = [k if k in VARYING else f"{k}: {v}" for k, v in sorted(kept.items())]
        return reply.status, text, shown

    async def look(self) -> object:
        """Return what a refused call must not change."""
        found = await self.rest.get("/api/v1/clusters/?owner=*", user="root")
        usage = [
            await self.rest.get("/api/v1/me", user=user) for user in ("alice", "bob")
        ]
        return {name: found[name]["status"] for name in found}, usage


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory):
    with running_stack(tmp_path_factory.mktemp("stack"), CONFIG) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def names(stack: Stack) -> dict[str, str]:
    """Start a cluster of alice's and one of bob's."""
    async with calling(stack.address) as rest:
        made = {f"{user}'s": await rest.create(user=user) for user in ("alice", "bob")}
        for target, name in made.items():
            user = target.removesuffix("'s")

            async def runs(name: str = name, user: str = user) -> bool:
                status = await rest.status(name, user=user)
                assert status == "RUNNING", f"{status}\n{stack.tail()}"
                return True

            await eventually(runs, within=120)
    return {**made, "absent": ABSENT}


@pytest.fixture
async def world(stack: Stack, names: dict[str, str]) -> AsyncIterator[World]:
    tokens = {t: read_token(stack, n) for t, n in names.items() if n != ABSENT}
    async with calling(stack.address) as rest:
        yield World(rest, names, tokens)


def read_token(stack: Stack, name: str) -> str:
    folder = stack.directory / "data" / "clusters" / name / "scheduler" / "files"
    return (folder / "api-token").read_text()


def may(operation: Operation, role: str, target: str) -> bool:
    """Return whether ``role`` may do it to the cluster of ``target``."""
    if not operation.schemes:
        return True
    if role == "token":
        return "clusterToken" in operation.schemes and target == "alice's"
    if "basic" not in operation.schemes or target == "absent":
        return False
    return role == "root" or target == f"{role}'s"


def want_refusal(operation: Operation, role: str) -> int:
    """Return the status for who may not: who are you, or there is no such thing."""
    is_person = role in {"alice", "bob", "root"} and "basic" in operation.schemes
    return operation.hides_by if is_person else 401


# What all people may ask for, about themselves.


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "operation", [o for o in OPERATIONS if "{name}" not in o.path], ids=str
)
async def test_everybody_is_asked_who_they_are(world, operation, role):
    before = await world.look()
    reply = await world.ask(operation, role, "absent")

    if not operation.schemes:
        assert reply.status in operation.answers
    elif role not in {"alice", "bob", "root"}:
        assert reply.status == 401
    elif operation.id == "create_cluster":
        assert (reply.status, reply.json["code"]) == (422, "limit_exceeded")
    else:
        assert reply.status in operation.answers
    assert await world.look() == before
    if role != "alice":
        assert world.names["alice's"] not in reply.text
    if role != "bob":
        assert world.names["bob's"] not in reply.text


async def test_only_an_admin_lists_the_clusters_of_others(world):
    for owner in ("*", "alice"):
        path = f"/api/v1/clusters/?owner={owner}"
        refused = await world.rest.call("GET", path, user="bob")
        assert refused.status == 403
        assert world.names["alice's"] in await world.rest.get(path, user="root")


# Clusters and their dashboards.


# The two clusters are needed: stops that are allowed have a test of their own.
CASES = [
    pytest.param(operation, role, target, id=f"{role} {operation} {target}")
    for operation in OF_CLUSTERS
    for role in ROLES
    for target in TARGETS
    if operation.id != "stop_cluster" or not may(operation, role, target)
]


@pytest.mark.parametrize(("operation", "role", "target"), CASES)
async def test_a_cluster_is_its_owners_an_admins_and_partly_its_own(
    world, operation, role, target
):
    is_allowed = may(operation, role, target)
    before = await world.look()
    reply = await world.ask(operation, role, target)

    if is_allowed:
        assert reply.status in operation.answers, reply.text
        if role == "root":
            assert "PRIVATE KEY" not in reply.text
    else:
        assert reply.status == want_refusal(operation, role), reply.text
        assert await world.look() == before


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", [*OF_CLUSTERS, *DASHBOARDS], ids=str)
async def test_what_is_not_there_and_what_is_not_theirs_look_alike(
    world, operation, role
):
    absent = world.mask(await world.ask(operation, role, "absent"), "absent")
    refused = [target for target in TARGETS[:2] if not may(operation, role, target)]
    for target in refused:
        found = world.mask(await world.ask(operation, role, target), target)
        assert found == absent, target
    assert refused or role == "root"


@pytest.mark.parametrize("role", ["alice", "root", "token"])
async def test_the_owner_an_admin_and_the_cluster_itself_may_stop_it(
    world, stack, role
):
    user = "root" if role == "root" else "carol"
    name = await world.rest.create(user="carol")

    async def has_token() -> bool:
        return (stack.directory / "data/clusters" / name / "scheduler/files").exists()

    await eventually(has_token, within=60)
    login = token(read_token(stack, name)) if role == "token" else basic(user, PASSWORD)
    reply = await world.rest.call(
        "DELETE", f"/api/v1/clusters/{name}", user=None, headers=login
    )

    assert reply.status == 204
    assert await world.rest.status(name, user="carol") in {"STOPPING", "STOPPED"}
    events = await world.rest.get(f"/api/v1/clusters/{name}/events", user="carol")
    stopped = {"alice": "its user", "root": "admin root", "token": "its scheduler"}
    assert any(stopped[role] in e["message"] for e in events["events"])


# Dashboards.


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("target", TARGETS)
async def test_a_dashboard_opens_for_its_owner_and_admins(world, role, target):
    reply = await world.ask(DASHBOARDS[0], role, target)

    if may(DASHBOARDS[0], role, target):
        assert reply.status == 200
        assert "Dask" in reply.text
    elif role in {"alice", "bob", "root"}:
        assert reply.status == 404
    else:
        assert reply.status == 401
        assert "WWW-Authenticate" not in reply.headers


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
async def test_another_sites_page_learns_nothing_of_what_is_there(world, origin):
    for role in ("nobody", "bob"):
        answers = [
            world.mask(
                await world.ask(DASHBOARDS[0], role, target, Origin=origin), target
            )
            for target in ("alice's", "absent")
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 403


async def test_a_link_opens_its_own_dashboard_and_no_other(world):
    own = world.names["alice's"]
    link = (await world.rest.get(f"/api/v1/clusters/{own}"))["dashboard_route"]
    opened = await world.rest.call("GET", link, user=None)
    cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
    seen = await world.ask(DASHBOARDS[0], "nobody", "alice's", **cookie)
    api = await world.rest.call("GET", "/api/v1/me", user=None, headers=cookie)
    other = [
        world.mask(await world.ask(DASHBOARDS[0], "nobody", target, **cookie), target)
        for target in ("bob's", "absent")
    ]
    moved = [
        world.mask(
            await world.rest.call(
                "GET",
                link.replace(own, world.names[target]),
                user=None,
            ),
            target,
        )
        for target in ("bob's", "absent")
    ]

    assert (opened.status, seen.status, api.status) == (303, 200, 401)
    assert other[0] == other[1]
    assert other[0][0] == 401
    assert moved[0] == moved[1]
    assert moved[0][0] == 401


async def test_an_admins_link_opens_and_carries_no_key(world):
    path = "/api/v1/clusters/" + world.names["bob's"]
    record = await world.rest.get(path, user="root")
    opened = await world.rest.call("GET", record["dashboard_route"], user=None)

    assert "PRIVATE KEY" not in json.dumps(record)
    assert opened.status == 303
