"""Traefik's static configuration: what it is started with and never re-reads.

Pure, like the table.
"""

from typing import Any, Final

from backends.routing.settings import RoutingSettings
from backends.routing.table import DASK, INTERNAL, PUBLIC

# Characters that a path may hold only as themselves; encoded they are a way
# around some server's rules. The slash is left: distributed names workers by
# it (`/info/worker/tls%3A%2F%2F127.0.0.1%3A40001.html`), and rules here see
# an encoded slash as no separator.
_REFUSED_ENCODED: Final = (
    "allowEncodedBackSlash",
    "allowEncodedHash",
    "allowEncodedNullCharacter",
    "allowEncodedPercent",
    "allowEncodedQuestionMark",
    "allowEncodedSemicolon",
)

# Bounds only the first byte and a request's body: held calls, streams,
# WebSockets and Dask connections are not touched by it (seen with 3.7). Long
# enough for 16 MiB on a poor line; without it idle sockets pile up for ever.
_READ_TIMEOUT: Final = "600s"

# Open requests of the old Traefik when it is replaced; long polls are held 45 s
# at most, and their clients ask again.
_GRACE: Final = "5s"
_LOG_SIZE_MB: Final = 10
_LOG_BACKUPS: Final = 2


def build_static(settings: RoutingSettings, internal_port: int) -> dict[str, Any]:
    """Build the static configuration of the Traefik that we run ourselves.

    Parameters
    ----------
    settings
        Checked.
    internal_port
        Free port on loopback, for readiness and for login checks.
    """
    entry_points = {PUBLIC: _build_entry_point(settings, settings.address)}
    if settings.dask_address is not None:
        entry_points[DASK] = _build_entry_point(settings, settings.dask_address)
    entry_points[INTERNAL] = {
        "address": f"127.0.0.1:{internal_port}",
        # Traefik itself asks here, about the visitor that it saw outside.
        "forwardedHeaders": {"trustedIPs": ["127.0.0.1/32"]},
        "http": {"aliasHeadersStrategy": "delete"},
    }
    directory = settings.directory
    return {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "entryPoints": entry_points,
        "ping": {"entryPoint": INTERNAL},
        "providers": {
            # Our own publisher paces the changes.
            "providersThrottleDuration": "0s",
            "file": {"filename": str(directory / "routes.yml"), "watch": True},
        },
        "log": {
            "level": settings.log_level.upper(),
            "format": "json",
            "filePath": str(directory / "traefik.log"),
            "maxSize": _LOG_SIZE_MB,
            "maxBackups": _LOG_BACKUPS,
        },
    }


def _build_entry_point(settings: RoutingSettings, address: str) -> dict[str, Any]:
    entry_point: dict[str, Any] = {
        "address": address,
        "http": {
            # `X_Forwarded_For` is another header to Traefik, the same to WSGI.
            "aliasHeadersStrategy": "delete",
            "encodedCharacters": dict.fromkeys(_REFUSED_ENCODED, False),
        },
        "transport": {
            "respondingTimeouts": {"readTimeout": _READ_TIMEOUT},
            "lifeCycle": {"graceTimeOut": _GRACE},
        },
    }
    if settings.trusted_proxies:
        entry_point["forwardedHeaders"] = {"trustedIPs": list(settings.trusted_proxies)}
    return entry_point
