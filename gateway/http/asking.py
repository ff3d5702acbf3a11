"""Ask an authenticator, which may be a site's own and answer anything, or never."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiohttp import web

from gateway.auth.names import is_storable, parse_user_name
from gateway.domain.errors import BackendError
from gateway.domain.user import User
from gateway.ports import Authenticator

_T = TypeVar("_T")

# It may ask another service, which has its own, shorter time-outs.
_ANSWER_S: float = 30.0
_USER_AND_CONTEXT = 2


async def ask_user(
    authenticator: Authenticator, request: web.Request
) -> tuple[User, Any]:
    """Return who sent ``request``, and what the authenticator wants to have back.

    Raises
    ------
    Unauthenticated, aiohttp.web.HTTPException
        As it says, and if the name that it was shown can be nobody's.
    BackendError
        If it does not answer, or with what cannot be a user.
    """
    asking = authenticator.authenticate(request)
    found: Any = await _in_time(asking, authenticator, "authenticate")
    user, context = found, None
    if isinstance(found, tuple):
        if len(found) != _USER_AND_CONTEXT:
            raise _blame(authenticator, f"returned {_describe(found)}, not 2")
        user, context = found
    # Any object that looks like a user is one.
    if not isinstance(getattr(user, "name", None), str):
        raise _blame(authenticator, f"returned {_describe(found)} and no user")
    name = parse_user_name(user.name)
    groups = getattr(user, "groups", None) or ()
    if not all(isinstance(group, str) and is_storable(group) for group in groups):
        raise _blame(authenticator, "returned a user with a group that is no text")
    if not isinstance(user, User):
        user = User(name, groups, bool(getattr(user, "admin", False)))
    return user, context


async def let_change(
    authenticator: Authenticator,
    request: web.Request,
    response: web.StreamResponse,
    context: Any,  # noqa: ANN401 - whatever it returned
) -> None:
    """Let the authenticator change ``response``.

    Raises
    ------
    BackendError
        If it does not return.
    """
    changing = authenticator.pre_response(request, response, context)
    await _in_time(changing, authenticator, "pre_response")


async def _in_time(
    call: Awaitable[_T], authenticator: Authenticator, method: str
) -> _T:
    scope = asyncio.timeout(_ANSWER_S)
    try:
        async with scope:
            return await call
    except TimeoutError as error:
        if not scope.expired():
            raise  # its own
        text = f"did not return from {method} within {_ANSWER_S:g} s"
        raise _blame(authenticator, text) from error


def _blame(authenticator: Authenticator, text: str) -> BackendError:
    # What it returned may hold credentials, so only its shape is told.
    return BackendError(f"the authenticator {type(authenticator).__name__} {text}")


def _describe(found: object) -> str:
    if isinstance(found, tuple):
        return f"a tuple of {len(found)}"
    return "None" if found is None else f"an object of class {type(found).__name__}"
