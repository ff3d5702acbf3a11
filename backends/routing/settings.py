"""What an operator decides about the proxy, as plain values, and its check.

Pure: traits are read in ``gateway.config``, files and sockets are touched by
`process` and `files`.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

LOG_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "PANIC")

# Both end up in rules between backticks.
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_~][-.~A-Za-z0-9_]*)*/?\Z")
_HOSTNAME: Final = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?)*\Z"
)
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Where the proxy listens and what stands behind it.

    Parameters
    ----------
    data_directory
        Of the gateway; everything of the proxy is kept in its ``traefik/``.
    gateway_urls
        Where the proxy finds the API, without a path: usually this gateway's own
        URL alone, since those of all that serve are published with the routes.
    address
        ``[host]:port`` of the public port: API, dashboards, and Dask traffic.
    tcp_address
        ``[host]:port`` for Dask traffic; ``None``, or the same as `address`,
        shares the public port.
    prefix
        Path below which all is served, such as ``/services/dask-gateway``;
        empty or ``/`` for the root.
    tls_cert, tls_key
        PEM files for HTTPS on the public port; both or none. A renewed file is
        taken over without a restart.
    dashboard_host
        Host name under which alone dashboards are served, apart from the
        API's origin; ``None`` serves them on every name.
    trusted_proxies
        Networks of load balancers in front, whose ``X-Forwarded-*`` are true.
    log_level
        Of Traefik's own log.
    externally_managed
        An operator runs the proxy; only its dynamic file is written.
    binary
        Path of Traefik; ``None`` looks beside Python and on the PATH.
    probe_address
        ``host:port`` at which routes are proved; ``None`` means `address`, or
        `tcp_address` if there is one.
    """

    data_directory: Path
    gateway_urls: tuple[str, ...]
    address: str = ":8000"
    tcp_address: str | None = None
    prefix: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    dashboard_host: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    log_level: str = "WARN"
    externally_managed: bool = False
    binary: Path | None = None
    probe_address: str | None = None

    @property
    def directory(self) -> Path:
        """Directory of the proxy's own files."""
        return self.data_directory / "traefik"

    @property
    def dask_address(self) -> str | None:
        """Address for Dask traffic alone; ``None`` if it shares the public port."""
        return None if self.tcp_address == self.address else self.tcp_address

    @property
    def base_path(self) -> str:
        """The prefix without its last slash: what every public path starts with."""
        return self.prefix.rstrip("/")


def is_host(text: str) -> bool:
    """Return whether ``text`` is a host name or an IP address without brackets.

    Examples
    --------
    >>> [is_host(t) for t in ("node-7", "10.0.0.1", "::1", "a`b", "a/b", "")]
    [True, True, True, False, False, False]
    """
    if _HOSTNAME.match(text):
        return True
    try:
        # A scope (`fe80::1%eth0`) may hold any character.
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False


def is_prefix(text: str) -> bool:
    """Return whether a rule may hold ``text`` as what every public path starts with.

    Examples
    --------
    >>> [is_prefix(t) for t in ("", "/services/dask", "dask", "/a`b", "/../a")]
    [True, True, False, False, False]
    """
    return _PREFIX.match(text) is not None


def is_port(port: int) -> bool:
    """Return whether a server can listen on TCP port ``port``."""
    return 0 < port <= _MAX_PORT


def format_host_port(host: str, port: int) -> str:
    """Join a host and a port, IPv6 addresses in brackets.

    Examples
    --------
    >>> format_host_port("::1", 80), format_host_port("node-7", 80)
    ('[::1]:80', 'node-7:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Split ``[host]:port``; the host is empty if all addresses are meant.

    Raises
    ------
    ValueError
        If it is no such thing, or the port is 0.

    Examples
    --------
    >>> parse_address(":8000"), parse_address("[::1]:80"), parse_address("n1:443")
    (('', 8000), ('::1', 80), ('n1', 443))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"needs brackets around an IPv6 address, got {text!r}")
    if not colon or not (port.isascii() and port.isdigit()) or not is_port(int(port)):
        raise ValueError(f"must be [host]:port with a port above 0, got {text!r}")
    if host and not is_host(host):
        raise ValueError(f"has no host name or IP address before its port: {text!r}")
    return host, int(port)


def parse_reachable(address: str) -> tuple[str, int]:
    """Return the host and port at which a listener on ``address`` is reached here.

    Examples
    --------
    >>> parse_reachable(":8000"), parse_reachable("[::]:80"), parse_reachable("n1:443")
    (('127.0.0.1', 8000), ('::1', 80), ('n1', 443))
    """
    host, port = parse_address(address)
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - recognised, not bound


def find_problems(settings: RoutingSettings) -> tuple[str, ...]:
    """Return everything that is wrong with ``settings``, one line each."""
    return (
        *_address_problems(settings),
        *_url_problems(settings.gateway_urls),
        *_name_problems(settings),
        *_network_problems(settings.trusted_proxies),
    )


def _address_problems(settings: RoutingSettings) -> list[str]:
    problems = []
    addresses = {
        "Proxy.address": settings.address,
        "Proxy.tcp_address": settings.tcp_address,
        "Proxy.probe_address": settings.probe_address,
    }
    for name, address in addresses.items():
        if address is None:
            continue
        try:
            parse_address(address)
        except ValueError as error:
            problems.append(f"{name} {error}")
    return problems


def _url_problems(urls: tuple[str, ...]) -> list[str]:
    if not urls:
        return ["the proxy needs the URL of at least one gateway"]
    return [
        f"{url!r} is no URL of a gateway: want http://host:port and nothing after it"
        for url in urls
        if not _is_origin(url)
    ]


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or is_port(parts.port)
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and is_host(parts.hostname or "")
        and port_fits
        and parts.username is None
        and parts.path in {"", "/"}
        and not (parts.query or parts.fragment)
    )


def _name_problems(settings: RoutingSettings) -> list[str]:
    problems = []
    if not is_prefix(settings.prefix):
        problems.append(
            "Proxy.prefix must be a path of letters, digits, ., ~, - and _ that "
            f"starts with /, or empty, got {settings.prefix!r}"
        )
    if settings.dashboard_host is not None and not is_host(settings.dashboard_host):
        problems.append(
            f"Proxy.dashboard_host must be a host name, got {settings.dashboard_host!r}"
        )
    if (settings.tls_cert is None) != (settings.tls_key is None):
        problems.append(
            "Proxy.tls_cert and Proxy.tls_key need each other: set both, or none"
        )
    paths = (settings.data_directory, settings.tls_cert, settings.tls_key)
    # Traefik reads its dynamic file as a Go template first.
    problems += [
        f"path {str(path)!r} must not contain {{{{, which Traefik takes as a template"
        for path in paths
        if path is not None and "{{" in str(path)
    ]
    if settings.log_level.upper() not in LOG_LEVELS:
        problems.append(
            f"Proxy.log_level must be one of {', '.join(LOG_LEVELS)}, "
            f"got {settings.log_level!r}"
        )
    return problems


def _network_problems(networks: tuple[str, ...]) -> list[str]:
    problems = []
    for network in networks:
        try:
            ip_network(network)
        except ValueError:
            problems.append(f"Proxy.trusted_proxies: {network!r} is no IP network")
    return problems
