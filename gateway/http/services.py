"""What the REST API is made of: its services, settings, and where they are kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from gateway import __version__
from gateway.ports import Authenticator, Backend, Clock

MAX_BODY: int = 1 << 20


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What of the configuration the REST API depends on.

    Parameters
    ----------
    version
        As ``/api/version`` tells it.
    prefix
        What every public path starts with, such as ``/services/dask``; empty
        for the root. The proxy strips it; it is needed for links and cookies.
    cookie_name
        Name of the session cookie, the same on every replica.
    cache_max_age_s
        Seconds for which a session is believed; 0 for not at all.
    secure_cookies
        Whether the public port speaks HTTPS, so that cookies say ``Secure``.
    trusted_origins
        Origins, such as ``https://hub.example.org``, whose pages may use a
        session for calls that change something.
    wait_s
        Longest time that ``?wait`` is held, in seconds; clients give up at 300.
    dashboard_link_max_age_s
        Longest time that a dashboard's link opens, in seconds.
    dashboard_host
        Host on which alone dashboards are served, at the port that visitors of
        the API came to; ``None`` if they share the API's.
    credentials_in_list
        Whether lists carry the keys of the user's running clusters, as the
        peer's do.
    """

    version: str = __version__
    prefix: str = ""
    cookie_name: str = "daskfleet-session"
    cache_max_age_s: float = 300.0
    secure_cookies: bool = False
    trusted_origins: frozenset[str] = frozenset()
    wait_s: float = 20.0
    dashboard_link_max_age_s: float = 86400.0
    dashboard_host: str | None = None
    credentials_in_list: bool = False


@dataclass(frozen=True, slots=True)
class AppServices:
    """Everything that the REST API calls.

    Parameters
    ----------
    backend, authenticator
        Set up and cleaned up by the application itself.
    clock
        For sessions and links.
    signing_keys
        Shared by all replicas; the first signs, all are believed.
    settings
        See there.
    """

    backend: Backend
    authenticator: Authenticator
    clock: Clock
    signing_keys: Sequence[bytes] = field(repr=False)
    settings: HttpSettings = field(default_factory=HttpSettings)


SERVICES = web.AppKey("services", AppServices)


def get_backend(request: web.Request) -> Backend:
    """Return the backend that serves ``request``."""
    return request.app[SERVICES].backend


def get_settings(request: web.Request) -> HttpSettings:
    """Return the settings that ``request`` is served under."""
    return request.app[SERVICES].settings
