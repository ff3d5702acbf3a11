"""Schemathesis on the document that a running gateway serves.

No 5xx, every answer as the document says, and nothing changed by a refused call:
neither what people want nor what schedulers have told.
"""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from gateway.http.openapi import build_document
from tests.contract.openapi.conftest import World
from tests.support.builders import basic, token
from tests.support.stack import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

# CI 20, nightly 333, for each of some twenty operations and three tests.
BOUNDED = settings(
    max_examples=max(10, settings.default.max_examples // 15),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
    unsupported_method,
    missing_required_header,
]
# By contract: 200 would make the stock preload retire workers by itself.
REFUSED_BY_503 = "/api/v1/clusters/{name}/heartbeat"

# The highest that is well-formed; it is cut to 45.
LONGEST_WAIT_S = 1e9

DOCUMENT = build_document("test")
OPERATIONS = [
    pytest.param(path, method, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
]
MALFORMABLE = [
    one
    for one in OPERATIONS
    if "requestBody" in (operation := DOCUMENT["paths"][one.values[0]][one.values[1]])
    or any(p["in"] == "query" for p in operation["parameters"])
]


@pytest.fixture(scope="module")
def served(world: World) -> schemathesis.BaseSchema:
    """The document of the running gateway."""
    return schemathesis.openapi.from_url(f"{world.address}/api/openapi.json")


def test_the_running_gateway_serves_the_operations_that_are_tested(served):
    found = {(path, method) for path, methods in served.items() for method in methods}

    assert found == {one.values for one in OPERATIONS}


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_well_formed_calls_are_answered_as_the_document_says(
    world, served, path, method
):
    """As alice, or as the scheduler of her cluster."""

    def call(case: schemathesis.Case) -> None:
        aim(case, world.ensure_cluster())
        log_in(case, world)
        send(case, world, CHECKS)

    for_each_case(served[path][method], GenerationMode.POSITIVE, call)


@pytest.mark.parametrize(("path", "method"), MALFORMABLE)
def test_malformed_calls_are_refused_and_change_nothing(world, served, path, method):
    def call(case: schemathesis.Case) -> None:
        aim(case, world.ensure_cluster())
        log_in(case, world)
        send(case, world, [*CHECKS, negative_data_rejection])

    for_each_case(served[path][method], GenerationMode.NEGATIVE, call)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_without_credentials_nobody_gets_anything(world, served, path, method):
    def call(case: schemathesis.Case) -> None:
        aim(case, world.ensure_cluster())
        log_out(case)
        response = send(case, world, CHECKS)

        if find_schemes(case):
            assert response.status_code == 401

    for_each_case(served[path][method], GenerationMode.POSITIVE, call)


def for_each_case(
    operation: Any, mode: GenerationMode, call: Callable[[schemathesis.Case], None]
) -> None:
    @BOUNDED
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        keep_short(case)
        call(case)

    check()


def send(case: schemathesis.Case, world: World, checks: list[Any]) -> Any:
    """Send ``case``, hold the answer against the document, and look what it did."""
    before = world.look()
    response = case.call(base_url=world.address, session=world.session, timeout=60)
    is_told_no = case.path == REFUSED_BY_503 and response.status_code == 503
    used = [c for c in checks if not (is_told_no and c is not_a_server_error)]
    case.validate_response(response, checks=used)
    if response.status_code >= 400 or case.method.upper() == "GET":
        assert world.look() == before
    if case.method.upper() == "DELETE":
        world.name = ""
    return response


def find_schemes(case: schemathesis.Case) -> set[str]:
    security = case.operation.definition.raw["security"]
    return {name for item in security for name in item}


def log_in(case: schemathesis.Case, world: World) -> None:
    schemes = find_schemes(case)
    log_out(case)
    if "basic" in schemes:
        case.headers.update(basic("alice", PASSWORD))
    elif schemes:
        case.headers.update(token(world.read_token(world.name)))


def log_out(case: schemathesis.Case) -> None:
    for name in [n for n in case.headers if n.lower() in {"authorization", "cookie"}]:
        del case.headers[name]
    case.cookies.clear()


def aim(case: schemathesis.Case, name: str) -> None:
    """Let most calls be about a cluster that there is."""
    if "{name}" in case.path and len(str(case.path_parameters["name"])) % 4:
        case.path_parameters["name"] = name


def keep_short(case: schemathesis.Case) -> None:
    """Leave out what holds a call open, and rightly."""
    if isinstance(case.body, dict):
        wait_s = case.body.get("wait_s")
        # What is no such number is refused at once, and should be.
        if type(wait_s) in {int, float} and 0 < wait_s <= LONGEST_WAIT_S:
            case.body["wait_s"] = 0
    for query in ("follow", "wait"):
        (case.query or {}).pop(query, None)
