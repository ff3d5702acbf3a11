"""The OpenAPI document, made of the table of routes and the wire's types."""

from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from gateway.http.replies import encode, raw_json_response
from gateway.http.route import Access, Query, Route
from gateway.http.routes import HTML, ROUTES, TEXT
from gateway.http.schemas import ErrorReply
from gateway.http.services import get_settings

_PATH = "/api/openapi.json"
_SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    **{access: [] for access in (Access.OPEN, Access.VISITOR)},
    Access.USER: [{"basic": []}, {"session": []}],
    Access.CLUSTER: [{"clusterToken": []}],
    Access.CLUSTER_OR_USER: [{"basic": []}, {"session": []}, {"clusterToken": []}],
}
_SCHEMES = {
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "With other authenticators their own scheme instead.",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": "daskfleet-session"},
    "clusterToken": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`token <token of the cluster>`: what its scheduler shows.",
    },
}
_STATUS_TEXTS = {
    200: "Done.",
    201: "Accepted.",
    204: "Accepted, or nothing to do.",
    303: "Look there.",
    401: "Nobody that the gateway knows.",
    403: "A role is missing, or another site's page sent this.",
    404: "There is no such cluster, or it is another user's.",
    409: "The cluster has ended or failed, or the platform refused.",
    413: "The body is too large.",
    415: "The body is compressed.",
    422: "The request or one of its values does not fit.",
    500: "A bug, here or in the operator's configuration.",
    503: "The store does not answer now.",
}


def build_document(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this API.

    Parameters
    ----------
    version
        Of the gateway.
    """
    types = [t for route in ROUTES for t in _find_types(route)]
    _, components = msgspec.json.schema_components(
        [ErrorReply, *types], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _build_operation(route)
    paths[_PATH] = {"get": _build_own_operation()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Daskfleet",
            "version": version,
            "summary": "Starts, scales, connects and stops Dask clusters.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": _SCHEMES,
        },
    }


def list_statuses(route: Route) -> tuple[int, ...]:
    """Return every status that ``route`` can answer with, sorted.

    Examples
    --------
    >>> list_statuses(ROUTES[0])
    (200, 500)
    """
    statuses = {*route.answers, *route.errors, 500}
    if route.access in {Access.USER, Access.CLUSTER_OR_USER, Access.CLUSTER}:
        statuses |= {401, 503}
    if route.access is Access.VISITOR:
        statuses.add(503)
    if route.access in {Access.USER, Access.CLUSTER_OR_USER} and route.method != "GET":
        statuses.add(403)
    if route.access is Access.CLUSTER:
        statuses.add(404)
    if route.body is not None:
        statuses |= {413, 415, 422}
    return tuple(sorted(statuses))


async def show_document(request: web.Request) -> web.Response:
    """Answer with this API's OpenAPI document."""
    return raw_json_response(encode(build_document(get_settings(request).version)))


def _find_types(route: Route) -> Iterable[Any]:
    if route.body is not None:
        yield route.body
    yield from (t for t in route.answers.values() if t not in {None, TEXT, HTML})


def _build_operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": (route.handler.__doc__ or "").partition("\n")[0],
        "security": _SECURITY[route.access],
        "parameters": _build_parameters(route),
        "responses": {
            str(status): _build_response(route, status)
            for status in list_statuses(route)
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _build_schema(route.body)}},
        }
    return operation


def _build_own_operation() -> dict[str, Any]:
    return {
        "operationId": show_document.__name__,
        "summary": show_document.__doc__,
        "security": [],
        "parameters": [],
        "responses": {
            "200": {
                "description": "This document.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    }


def _build_parameters(route: Route) -> list[dict[str, Any]]:
    found = [_build_query(query) for query in route.query]
    if "{name}" in route.path:
        found.insert(
            0,
            {
                "name": "name",
                "in": "path",
                "required": True,
                "description": "Name of the cluster.",
                "schema": {"type": "string"},
            },
        )
    if route.access is Access.VISITOR:
        found += [
            {
                "name": f"X-Forwarded-{name}",
                "in": "header",
                "description": "Of the visitor's request; from the proxy.",
                "schema": {"type": "string"},
            }
            for name in ("Uri", "Host", "Proto", "Method")
        ]
    return found


def _build_query(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "in": "query",
        "description": query.text,
        "schema": dict(query.schema),
    }


def _build_response(route: Route, status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _STATUS_TEXTS[status]}
    kind = route.answers.get(status, ErrorReply)
    if kind in {TEXT, HTML}:
        response["content"] = {kind: {"schema": {"type": "string"}}}
    elif kind is not None:
        response["content"] = {"application/json": {"schema": _build_schema(kind)}}
    return response


def _build_schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - any type of the wire
    (schema,), _ = msgspec.json.schema_components(
        [kind], ref_template="#/components/schemas/{name}"
    )
    return schema
