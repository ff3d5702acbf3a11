"""The base of all authenticators: the peer's contract, so sites' own classes fit."""

from typing import Any

from aiohttp import web
from traitlets import Integer, TraitError, Unicode, validate
from traitlets.config import LoggingConfigurable

from gateway.domain.user import User

# The characters that RFC 6265 allows in a cookie's name, less the rare ones.
_COOKIE_NAME = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)


class Authenticator(LoggingConfigurable):
    """Base class of authenticators; implements `gateway.ports.Authenticator`.

    A subclass defines `authenticate`, and may define `setup`, `cleanup` and
    `pre_response`. Sessions are kept by the gateway: `authenticate` is asked
    when a request has no session yet, or an old one.

    Notes
    -----
    Method and trait names are those of ``dask_gateway_server.auth``.
    """

    cookie_name = Unicode(
        "daskfleet-session",
        help="""
        Name of the session cookie. The same on every replica, which believe
        each other's sessions.
        """,
    ).tag(config=True)

    cache_max_age = Integer(
        300,
        min=0,
        help="""
        Seconds for which a login is believed before the credentials are asked
        for again. Changes of groups and of admins count after so long at the
        latest. Programs that use the client do not notice.
        """,
    ).tag(config=True)

    @validate("cookie_name")
    def _check_cookie_name(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        name = proposal["value"]
        if not name or not _COOKIE_NAME.issuperset(name):
            raise TraitError(f"cookie_name must be a cookie's name, got {name!r}")
        return str(name)

    async def setup(self, app: web.Application) -> None:
        """Prepare; called once before the first request.

        Parameters
        ----------
        app
            Routes may still be added to it.
        """

    async def cleanup(self) -> None:
        """Release everything."""

    async def authenticate(self, request: web.Request) -> User | tuple[User, Any]:
        """Return who sent ``request``, or that and a context for `pre_response`.

        Raises
        ------
        Unauthenticated, aiohttp.web.HTTPUnauthorized
            If the credentials are absent, malformed or wrong.
        """
        raise NotImplementedError

    async def pre_response(
        self,
        request: web.Request,
        response: web.StreamResponse,
        context: Any = None,  # noqa: ANN401 - whatever authenticate returned
    ) -> None:
        """Change a response, an error's too, before it is sent.

        Called only for requests for which `authenticate` was.
        """


def unauthorized(kind: str) -> web.HTTPUnauthorized:
    """Return an exception to raise: 401 with ``kind`` as the challenge.

    Parameters
    ----------
    kind
        Value of ``WWW-Authenticate``, such as ``Basic``.
    """
    return web.HTTPUnauthorized(
        headers={"WWW-Authenticate": kind}, reason="Authentication required"
    )
