"""Schemathesis on our OpenAPI document: no 5xx, and refused calls change nothing."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway.http.openapi import build_document
from tests.support.api import Api, running_api
from tests.support.builders import a_cluster, basic, token

SCHEMA = schemathesis.openapi.from_dict(build_document("test"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# The document has a 503 for these: a heartbeat that would retire workers.
REFUSED_BY_503 = "/api/v1/clusters/{name}/heartbeat"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """Serve from a loop in a thread: schemathesis calls without one."""
    ready, found = threading.Event(), []
    stop: asyncio.Event

    async def serve() -> None:
        nonlocal stop
        stop = asyncio.Event()
        async with running_api(wait_s=0.01) as running:
            entry = running.backend.add(a_cluster().running().with_limit(8).build())
            entry.logs["scheduler"] = ["line"]
            found.extend([running, asyncio.get_running_loop()])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    yield found[0]
    found[1].call_soon_threadsafe(stop.set)
    thread.join(60)


@SCHEMA.parametrize()
@settings(
    max_examples=max(20, settings.default.max_examples // 2),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_keeps_to_the_document(case, api):
    schemes = {
        name for item in case.operation.definition.raw["security"] for name in item
    }
    entry = api.backend.entries["c1"]
    if "basic" in schemes:
        case.headers.update(basic("alice"))
    elif schemes:
        case.headers.update(token(entry.token))
    if "{name}" in case.path:
        case.path_parameters["name"] = "c1"
    if isinstance(case.body, dict):
        case.body.pop("wait_s", None)
    for query in ("follow", "wait"):
        case.query.pop(query, None)
    before = snapshot(api)

    response = case.call(base_url=api.url)

    is_refusal = case.path == REFUSED_BY_503 and response.status_code == 503
    checks = [c for c in CHECKS if not (is_refusal and c is not_a_server_error)]
    case.validate_response(response, checks=checks)
    if response.status_code >= 400:
        assert snapshot(api) == before
    if case.method.upper() == "DELETE":
        api.backend.add(a_cluster().running().with_limit(8).build())


def snapshot(api: Api) -> object:
    return {
        name: (entry.cluster, entry.generation, len(entry.reports))
        for name, entry in api.backend.entries.items()
    }
