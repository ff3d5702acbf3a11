"""What surrounds every handler: request ids, log lines, errors, logins."""

import re
import secrets
from collections.abc import Mapping

import structlog
from aiohttp import web
from structlog.contextvars import bind_contextvars, reset_contextvars

from gateway.aio.foreign import contained
from gateway.http.browsers import is_browser, may_browsers_log_in
from gateway.http.identity import (
    find_user,
    finish,
    has_token,
    identify,
    require_token,
)
from gateway.http.metrics import METRICS
from gateway.http.replies import build_failure, describe_error, find_headers
from gateway.http.route import Access, Handler, Route
from gateway.http.services import SERVICES, get_settings

log = structlog.get_logger(__name__)

ROUTE_TABLE = web.AppKey("route_table", Mapping[tuple[str, str], Route])

_REQUEST_ID = web.RequestKey("request_id", str)
_STARTED = web.RequestKey("started", bool)
_WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_UNKNOWN_ROUTE = "unknown"
# Each comes once a minute or oftener from every probe, scheduler and page.
_FREQUENT = frozenset(
    {
        "/api/health",
        "/api/ready",
        "/metrics",
        "/routes",  # of a proxy that fetches its table from the backend
        "/api/v1/dashboard-auth",
        "/api/v1/clusters/{name}/sync",
        "/api/v1/clusters/{name}/heartbeat",
    }
)
_FIRST_ERROR = 400


@web.middleware
async def trace(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id, log and count it, and let no exception out."""
    request_id = _find_request_id(request)
    request[_REQUEST_ID] = request_id
    clock = request.app[SERVICES].clock
    begin = clock.monotonic()
    fields = {"request_id": request_id}
    if (name := request.match_info.get("name")) is not None:
        fields["cluster"] = name[:64]
    # Bound and reset: all requests of one connection share a context.
    bound = bind_contextvars(**fields)
    try:
        try:
            with contained():
                response = await handler(request)
        except Exception as error:  # noqa: BLE001 - the one place that ends them
            response = _answer_error(request, error)
        duration_s = clock.monotonic() - begin
        route = _find_template(request)
        request.app[METRICS].note_request(
            request.method, route, response.status, duration_s
        )
        _log_request(request, route, response.status, duration_s)
    finally:
        reset_contextvars(**bound)
    return response


@web.middleware
async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find out who sent the request before anything else is looked at."""
    route = find_route(request)
    access = Access.OPEN if route is None else route.access
    if access is Access.CLUSTER:
        await require_token(request)
    elif access is Access.USER or (
        access is Access.CLUSTER_OR_USER and not await has_token(request)
    ):
        identity = await identify(request)
        request.app[METRICS].note_login(is_fresh=identity.is_fresh)
        bound = bind_contextvars(user=identity.user.name)
        try:
            response = await handler(request)
            await finish(request, response)
        finally:
            reset_contextvars(**bound)
        return response
    return await handler(request)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Make a response of a handler's error, so that logins can add to it."""
    try:
        return await handler(request)
    except Exception as error:  # noqa: BLE001 - the one place that ends them
        return _answer_error(request, error)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add what every response carries, streams and errors too."""
    request[_STARTED] = True
    dress(response, request.get(_REQUEST_ID) or secrets.token_hex(16))


def set_request_id(request: web.BaseRequest) -> str:
    """Give ``request`` an id if it has none, and return it."""
    request_id: str = request.setdefault(_REQUEST_ID, secrets.token_hex(16))
    return request_id


def dress(response: web.StreamResponse, request_id: str) -> None:
    """Add the headers of every response."""
    response.headers["X-Request-ID"] = request_id
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"


def find_route(request: web.Request) -> Route | None:
    """Return the route of ``request``, ``None`` if none of the table fits."""
    method = "GET" if request.method == "HEAD" else request.method
    return request.app[ROUTE_TABLE].get((method, _find_template(request)))


def _find_template(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return _UNKNOWN_ROUTE if resource is None else resource.canonical


def _find_request_id(request: web.Request) -> str:
    given = request.headers.get("X-Request-ID", "")
    return given if _WELL_FORMED_ID.match(given) else secrets.token_hex(16)


def _answer_error(request: web.Request, error: Exception) -> web.StreamResponse:
    if request.get(_STARTED):
        log.error("answer broke off", exc_info=error)
        raise error  # half an answer is out: aiohttp closes the connection
    if isinstance(error, web.HTTPException) and error.status < _FIRST_ERROR:
        # A custom authenticator leads elsewhere.
        return web.Response(status=error.status, headers=find_headers(error))
    failure = describe_error(error)
    if failure.is_bug:
        log.error("request failed", exc_info=error)
    response = build_failure(failure, request[_REQUEST_ID])
    if is_browser(request) and not may_browsers_log_in(get_settings(request)):
        # A tenant's page on this origin could use what the browser then keeps.
        response.headers.pop("WWW-Authenticate", None)
    return response


def _log_request(
    request: web.Request, route: str, status: int, duration_s: float
) -> None:
    user = find_user(request)
    is_quiet = route in _FREQUENT and status < _FIRST_ERROR
    write = log.debug if is_quiet else log.info
    write(
        "request answered",
        method=request.method[:16],
        route=route,
        status=status,
        duration_ms=round(duration_s * 1000, 1),
        user=None if user is None else user.name,
        cluster=request.match_info.get("name", "")[:64] or None,
    )
