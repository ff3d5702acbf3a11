"""Find out who sent a request: a session, credentials, or a cluster's token."""

from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from gateway.auth.session import Sessions
from gateway.domain.errors import Unauthenticated
from gateway.domain.names import is_cluster_name
from gateway.domain.user import User
from gateway.http.asking import ask_user, let_change
from gateway.http.browsers import (
    SAFE_METHODS,
    check_same_origin,
    is_browser,
    may_browsers_log_in,
)
from gateway.http.services import SERVICES, get_backend, get_settings

SESSIONS = web.AppKey("sessions", Sessions)
TOKEN_CHALLENGE = "token"  # noqa: S105 - the name of a scheme, not a credential

# Ours have 43 characters; the store need not look at anything longer.
_MAX_TOKEN = 256


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a request, and how that is known.

    Parameters
    ----------
    user
        Never without a name.
    is_fresh
        Whether the authenticator was asked, so that it may change the response.
    context
        What the authenticator wants to have back then.
    """

    user: User
    is_fresh: bool = False
    context: Any = None


_IDENTITY = web.RequestKey("identity", Identity)


def get_user(request: web.Request) -> User:
    """Return who sent ``request``, on routes that ask for a user."""
    return request[_IDENTITY].user


def find_user(request: web.Request) -> User | None:
    """Return who sent ``request``; ``None`` if a cluster did, or nobody known."""
    identity = request.get(_IDENTITY)
    return None if identity is None else identity.user


async def identify(request: web.Request) -> Identity:
    """Find out which user sent ``request``, and remember it there.

    Credentials come before a session: whoever shows them means them.

    Raises
    ------
    Unauthenticated, aiohttp.web.HTTPException
        As the authenticator says.
    Forbidden
        If a session is used for a change from another site's page.
    """
    identity = None
    if "Authorization" not in request.headers:
        identity = _read_session(request)
    if identity is None:
        identity = await authenticate(request)
    request[_IDENTITY] = identity
    return identity


async def authenticate(request: web.Request) -> Identity:
    """Ask the authenticator who sent ``request``.

    Raises
    ------
    Unauthenticated, aiohttp.web.HTTPException
        As it says, and if the name that it was shown can be nobody's.
    BackendError
        If it does not answer, or with what cannot be a user.
    """
    user, context = await ask_user(request.app[SERVICES].authenticator, request)
    return Identity(user, is_fresh=True, context=context)


async def has_token(request: web.Request) -> bool:
    """Return whether ``request`` shows the token of the cluster in its path.

    False for a cluster that does not exist, as for a wrong token.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    name = request.match_info.get("name", "")
    if (
        scheme.lower() != "token"
        or not 0 < len(token) <= _MAX_TOKEN
        or not token.isascii()
        or not is_cluster_name(name)
    ):
        return False
    return await get_backend(request).check_token(name, token)


async def require_token(request: web.Request) -> None:
    """Refuse a request without the token of the cluster in its path.

    Raises
    ------
    Unauthenticated
        Alike for a wrong token and for an unknown cluster.
    """
    if not await has_token(request):
        raise Unauthenticated(
            "the token is not that of this cluster", challenge=TOKEN_CHALLENGE
        )


async def finish(request: web.Request, response: web.StreamResponse) -> None:
    """Let the authenticator change ``response``, and start a session with it.

    To be called before the response is prepared, on error responses too; the
    second call for a request does nothing.
    """
    identity = request.get(_IDENTITY)
    if identity is None or not identity.is_fresh:
        return
    request[_IDENTITY] = replace(identity, is_fresh=False)
    services, settings = request.app[SERVICES], get_settings(request)
    await let_change(services.authenticator, request, response, identity.context)
    value = request.app[SESSIONS].issue(identity.user)
    if value is None or (is_browser(request) and not may_browsers_log_in(settings)):
        return
    response.set_cookie(
        settings.cookie_name,
        value,
        max_age=int(settings.cache_max_age_s),
        path=f"{settings.prefix}/api/",
        secure=settings.secure_cookies,
        httponly=True,
        samesite="Lax",
    )


def _read_session(request: web.Request) -> Identity | None:
    settings = get_settings(request)
    value = request.cookies.get(settings.cookie_name)
    user = None if value is None else request.app[SESSIONS].read(value)
    if user is None:
        return None
    if request.method not in SAFE_METHODS:
        check_same_origin(request, settings)
    return Identity(user)
