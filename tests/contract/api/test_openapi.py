"""The OpenAPI document is whole, true and valid."""

import json

import pytest

from gateway.http.openapi import build_document, list_statuses
from gateway.http.replies import encode
from gateway.http.routes import ROUTES

DOCUMENT = build_document("test")
OPERATIONS = [
    pytest.param(path, method, operation, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


async def test_it_is_served_as_it_is_built(api):
    answer = await api.get("/api/openapi.json")

    want = json.loads(encode(build_document(answer.json["info"]["version"])))
    assert answer.json == want


def test_it_names_every_route_that_the_application_has(api):
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in api.app.router.routes()
        if route.method != "HEAD" and not route.resource.canonical.startswith("/clust")
    }

    assert served == {
        (method, path)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_is_described(path, method, operation):
    assert operation["operationId"]
    assert operation["summary"].endswith(".")
    names = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
    assert names == ({"name"} if "{name}" in path else set())
    assert (method == "post") == ("requestBody" in operation)


def test_operation_ids_are_unique():
    ids = [operation.values[2]["operationId"] for operation in OPERATIONS]

    assert len(set(ids)) == len(ids)


def test_every_reference_leads_somewhere():
    def find(node):
        if isinstance(node, dict):
            yield from ([node["$ref"]] if "$ref" in node else [])
            for value in node.values():
                yield from find(value)
        elif isinstance(node, list):
            for value in node:
                yield from find(value)

    schemas = DOCUMENT["components"]["schemas"]

    assert {ref.rpartition("/")[2] for ref in find(DOCUMENT)} == set(schemas)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_every_route_that_asks_for_somebody_can_refuse_them(route):
    document = DOCUMENT["paths"][route.path][route.method.lower()]

    assert bool(document["security"]) <= ("401" in document["responses"])
    assert set(document["responses"]) == {str(s) for s in list_statuses(route)}
