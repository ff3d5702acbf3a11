"""The dashboards' door: who may see which, asked by the proxy for each request.

The proxy relays any answer but 200 to the visitor's browser, so nothing here
may give it a session of the API or ask it for a password.
"""

import structlog
from aiohttp import web

from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import ClusterNotFound, UserError
from gateway.domain.user import User
from gateway.http.browsers import find_port, find_scheme, is_own_origin
from gateway.http.identity import authenticate
from gateway.http.links import COOKIE_MAX_AGE_S, COOKIE_NAME, DashboardLinks, Visitor
from gateway.http.pages import build_absent_page, build_foreign_page, build_login_page
from gateway.http.services import get_backend, get_settings
from gateway.http.targets import Target, parse_target

log = structlog.get_logger(__name__)

LINKS = web.AppKey("links", DashboardLinks)


async def check_visitor(request: web.Request) -> web.Response:
    """Answer 200 if the visitor may see the dashboard that they ask for.

    Otherwise a page, or the way from a link to the dashboard itself.
    """
    headers = request.headers
    target = parse_target(
        headers.get("X-Forwarded-Uri", ""), get_settings(request).prefix
    )
    if target is None:
        return build_absent_page()
    if _is_foreign(request):
        return build_foreign_page()
    if target.token is not None:
        return await _exchange(request, target.cluster, target.token)
    visitor = _read_cookie(request, target.cluster)
    if visitor is None:
        return await _check_credentials(request, target)
    if not await _may_see(request, target.cluster, visitor.user):
        return build_absent_page()
    response = web.Response()
    if visitor.left_s < COOKIE_MAX_AGE_S / 2:
        method = headers.get("X-Forwarded-Method", "GET")
        if method == "GET" and headers.get("Sec-Fetch-Dest") == "document":
            # Only an answer that is not 200 takes a cookie to every browser.
            response = web.Response(
                status=303, headers={"Location": headers["X-Forwarded-Uri"]}
            )
        _set_cookie(request, response, target.cluster, visitor.user)
    return response


async def show_absent(request: web.Request) -> web.Response:
    """Answer for a dashboard's path that the proxy has no route for here.

    With dashboards on a host of their own, a link leads there.
    """
    settings = get_settings(request)
    target = parse_target(request.raw_path, "")
    if target is None or target.token is None or settings.dashboard_host is None:
        return build_absent_page()
    if request.app[LINKS].read_token(target.cluster, target.token) is None:
        return build_login_page()
    origin = f"{find_scheme(request)}://{settings.dashboard_host}{find_port(request)}"
    path = f"/clusters/{target.cluster}/login/{target.token}/status"
    return _redirect(f"{origin}{settings.prefix}{path}")


def _is_foreign(request: web.Request) -> bool:
    # Browsers tell the origin of WebSockets, of changes and of reads by another
    # site's script, but not of following a link.
    origin = request.headers.get("Origin")
    trusted = get_settings(request).trusted_origins
    return (
        origin is not None
        and origin not in trusted
        and not is_own_origin(request, origin)
    )


async def _exchange(request: web.Request, cluster: str, token: str) -> web.Response:
    visitor = request.app[LINKS].read_token(cluster, token)
    is_known = visitor is None
    if visitor is None:
        # An old link in a browser that is let in all the same.
        visitor = _read_cookie(request, cluster)
    if visitor is None:
        return build_login_page()
    if not await _may_see(request, cluster, visitor.user):
        return build_absent_page()
    response = _redirect(f"{get_settings(request).prefix}/clusters/{cluster}/status")
    if not is_known:
        _set_cookie(request, response, cluster, visitor.user)
        log.info("dashboard opened by link", user=visitor.user.name, cluster=cluster)
    return response


async def _check_credentials(request: web.Request, target: Target) -> web.Response:
    if "Authorization" not in request.headers:
        if target.is_bare:
            # There may be a cookie, which is only sent below this path.
            prefix = get_settings(request).prefix
            return _redirect(f"{prefix}/clusters/{target.cluster}/")
        return build_login_page()
    try:
        identity = await authenticate(request)
    except (UserError, web.HTTPClientError):
        return build_login_page()
    if await _may_see(request, target.cluster, identity.user):
        return web.Response()
    return build_absent_page()


async def _may_see(request: web.Request, name: str, user: User) -> bool:
    try:
        cluster = await get_backend(request).get_cluster(name)
    except ClusterNotFound:
        return False
    is_there = cluster.status is PublicStatus.RUNNING and cluster.has_dashboard
    return is_there and user.may_use(cluster.owner)


def _read_cookie(request: web.Request, cluster: str) -> Visitor | None:
    # A page of another dashboard may have set one of the same name: try all.
    links = request.app[LINKS]
    for part in request.headers.get("Cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE_NAME and (visitor := links.read_cookie(cluster, value)):
            return visitor
    return None


def _set_cookie(
    request: web.Request, response: web.Response, cluster: str, user: User
) -> None:
    settings = get_settings(request)
    response.set_cookie(
        COOKIE_NAME,
        request.app[LINKS].issue_cookie(cluster, user),
        max_age=COOKIE_MAX_AGE_S,
        path=f"{settings.prefix}/clusters/{cluster}/",
        secure=settings.secure_cookies,
        httponly=True,
        samesite="Lax",
    )


def _redirect(location: str) -> web.Response:
    # Not to be kept, and the path, with its token, is not to be told on.
    headers = {
        "Location": location,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    return web.Response(status=303, headers=headers)
