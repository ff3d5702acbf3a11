"""What is different when a browser asks, and whose page made it ask.

Tenants' dashboards may share the API's origin, so a browser must never hold
anything that the API believes.
"""

from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from gateway.domain.errors import Forbidden
from gateway.http.services import HttpSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_browser(request: web.Request) -> bool:
    """Return whether a browser sent ``request``, as far as it says so.

    Fetch metadata is only sent over HTTPS and to loopback, hence the second
    look. A page cannot change either header.
    """
    return "Sec-Fetch-Mode" in request.headers or request.headers.get(
        "User-Agent", ""
    ).startswith("Mozilla/")


def may_browsers_log_in(settings: HttpSettings) -> bool:
    """Return whether no page of a tenant shares the API's origin."""
    return settings.dashboard_host is not None


def check_same_origin(request: web.Request, settings: HttpSettings) -> None:
    """Refuse a call that another site's page may have made a browser send.

    Programs send neither header and pass.

    Raises
    ------
    Forbidden
        If the page is from elsewhere, and not from a trusted origin.
    """
    origin = request.headers.get("Origin")
    if origin is not None and origin in settings.trusted_origins:
        return
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        is_own = site in {"same-origin", "none"}
    else:
        is_own = origin is None or is_own_origin(request, origin)
    if not is_own:
        raise Forbidden("this session may not be used from another site's page")


def is_own_origin(request: web.Request, origin: str) -> bool:
    """Return whether ``origin`` is where ``request`` was sent to."""
    try:
        theirs, ours = urlsplit(origin), _find_origin(request)
        return (
            theirs.scheme in _DEFAULT_PORTS
            and theirs.hostname == ours.hostname
            and (theirs.port or _DEFAULT_PORTS[theirs.scheme])
            == (ours.port or _DEFAULT_PORTS.get(theirs.scheme))
        )
    except ValueError:
        return False


def find_port(request: web.Request) -> str:
    """Return the port of the address in the visitor's browser, with its colon.

    "" if the address names none; then it is the scheme's own.
    """
    try:
        port = _find_origin(request).port
    except ValueError:
        return ""
    return "" if port is None else f":{port}"


def find_scheme(request: web.Request) -> str:
    """Return ``http`` or ``https``, as the visitor's browser sees it."""
    forwarded = request.headers.get("X-Forwarded-Proto", request.scheme)
    return "https" if forwarded in {"https", "wss"} else "http"


def _find_origin(request: web.Request) -> SplitResult:
    host = request.headers.get("X-Forwarded-Host") or request.headers.get("Host", "")
    return urlsplit(f"{find_scheme(request)}://{host}")
