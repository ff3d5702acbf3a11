"""The proxy's routing table: from routes to Traefik's dynamic configuration.

Pure. Names, hosts and ports are checked here, right before they reach a rule;
how the table gets to the proxy is the business of `files` and `publisher`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from backends.database.routes import Route
from backends.routing.middlewares import AUTH_PATH, build_middlewares
from backends.routing.settings import (
    format_host_port,
    is_host,
    is_port,
)
from gateway.domain.addresses import is_loopback
from gateway.domain.names import SNI_PREFIX, format_sni, is_cluster_name

PUBLIC: Final = "public"  # entry points, as the static configuration names them
DASK: Final = "dask"
INTERNAL: Final = "internal"
LOADED_PATH: Final = "/loaded"

# Explicit, because Traefik else ranks by the length of the rule: a cluster's
# dashboard must never come before the API, nor the catch-all before a cluster.
_API_PRIORITY: Final = 1000
_CLUSTER_PRIORITY: Final = 100
_LAST_PRIORITY: Final = 1

# Nobody but root can listen there, and root has no reason to.
_CLOSED: Final = "127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class TableSettings:
    """What of the configuration the table depends on.

    Parameters
    ----------
    gateway_urls
        At least one, each ``http://host:port``.
    certificate, key
        Files, where the proxy runs, shown to whoever asks for a name that is no
        cluster's; empty leaves it to the proxy.
    base_path
        What every public path starts with; empty for the root.
    tls
        Whether the public port speaks HTTPS.
    dask_entry_point
        `PUBLIC`, or `DASK` if Dask traffic has a port of its own.
    internal_port
        Port of `INTERNAL` on loopback; ``None`` if there is no such entry
        point, and logins are checked at the first gateway alone.
    dashboard_host
        Host on which alone dashboards are served.
    """

    gateway_urls: tuple[str, ...]
    certificate: str = ""
    key: str = ""
    base_path: str = ""
    tls: bool = False
    dask_entry_point: str = PUBLIC
    internal_port: int | None = None
    dashboard_host: str | None = None


def select_routes(
    routes: Iterable[Route], reserved_ports: frozenset[int]
) -> tuple[tuple[Route, ...], tuple[str, ...]]:
    """Split ``routes`` into those that can be served, by name, and refusals.

    Parameters
    ----------
    routes
        In any order; of two with one cluster the last wins.
    reserved_ports
        Ports of the gateway and of the proxy on this machine: a scheduler that
        names one of them as its own would have its users led past the login.

    Returns
    -------
    tuple of Route, tuple of str
        The reasons are for operators, one for each route left out.
    """
    accepted: dict[str, Route] = {}
    refused = []
    for route in routes:
        problem = _find_problem(route, reserved_ports)
        if problem is None:
            accepted[route.cluster] = route
        else:
            refused.append(f"cluster {route.cluster!r}: {problem}")
    return tuple(accepted[name] for name in sorted(accepted)), tuple(refused)


def build_table(routes: Iterable[Route], settings: TableSettings) -> dict[str, Any]:
    """Build the dynamic configuration that serves exactly ``routes``.

    The order is deterministic, and no map in it is empty: Traefik refuses a
    file with one.

    Raises
    ------
    ValueError
        If a route cannot be served; `select_routes` tells which.
    """
    chosen, refused = select_routes(routes, frozenset())
    if refused:
        raise ValueError("; ".join(refused))
    table = {
        "http": _build_http(chosen, settings),
        "tcp": _build_tcp(chosen, settings),
    }
    if settings.certificate:
        shown = {"certFile": settings.certificate, "keyFile": settings.key}
        table["tls"] = {"stores": {"default": {"defaultCertificate": shown}}}
    return table


def parse_routes(table: Mapping[str, Any]) -> tuple[Route, ...]:
    """Return the routes that `build_table` made ``table`` of, by name.

    Raises
    ------
    ValueError
        If the table is not one of ours.
    """
    try:
        return tuple(
            _parse_route(name, table)
            for name in sorted(table["tcp"]["services"])
            if name.startswith("cluster-")
        )
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"not a routing table of ours: {error!r}") from error


def parse_gateways(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where ``table``, which `build_table` has made, says the API is.

    Raises
    ------
    ValueError
        If the table is not one of ours.
    """
    try:
        servers = table["http"]["services"]["api"]["loadBalancer"]["servers"]
        return tuple(str(server["url"]) for server in servers)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"not a routing table of ours: {error!r}") from error


def _find_problem(route: Route, reserved_ports: frozenset[int]) -> str | None:
    if not is_cluster_name(route.cluster):
        return "the name is none that a cluster can have"
    if not is_host(route.host):
        return f"{route.host!r} is no host name and no IP address"
    ports = [route.scheduler_port]
    if route.dashboard_port is not None:
        ports.append(route.dashboard_port)
    for port in ports:
        if not is_port(port):
            return f"{port!r} is no TCP port"
        if port in reserved_ports and is_loopback(route.host):
            return f"port {port} is the gateway's own"
    return None


def _build_http(routes: tuple[Route, ...], settings: TableSettings) -> dict[str, Any]:
    served = [route for route in routes if route.dashboard_port is not None]
    routers = {
        **_build_api_routers(settings),
        **{
            f"cluster-{r.cluster}": _build_dashboard_router(r, settings) for r in served
        },
    }
    services = {
        "api": {
            "loadBalancer": {
                "serversTransport": "api",
                "servers": [{"url": url.rstrip("/")} for url in settings.gateway_urls],
            }
        },
        **{f"cluster-{r.cluster}": _build_dashboard_service(r) for r in served},
    }
    return {
        "routers": routers,
        "services": services,
        "middlewares": build_middlewares(
            settings.base_path, _format_login_url(settings), tls=settings.tls
        ),
        "serversTransports": {
            # Below aiohttp's own keep-alive of 75 s: a connection that the API
            # closes just as a POST is sent on it would be a 502.
            "api": {
                "maxIdleConnsPerHost": 64,
                "forwardingTimeouts": {"dialTimeout": "5s", "idleConnTimeout": "15s"},
            },
            "dashboard": {
                "forwardingTimeouts": {"dialTimeout": "10s", "idleConnTimeout": "15s"}
            },
        },
    }


def _build_api_routers(settings: TableSettings) -> dict[str, Any]:
    base = settings.base_path
    # On a host of their own, dashboards do not share an origin with the API.
    not_there = (
        f" && !Host(`{settings.dashboard_host}`)" if settings.dashboard_host else ""
    )
    tls: dict[str, Any] = {"tls": {}} if settings.tls else {}
    strip = ["api-strip"] if base else []
    middlewares = [*strip, "api-headers", "api-retry"]
    # Whoever may not see a dashboard is not told whether there is one, so the
    # login is asked first here, too; on the API's own host there never is one.
    login = [] if settings.dashboard_host else ["dashboard-login"]
    routers: dict[str, Any] = {
        "api": {
            "entryPoints": [PUBLIC],
            "rule": f"PathPrefix(`{base}/api/`){not_there}",
            "priority": _API_PRIORITY,
            "middlewares": middlewares,
            "service": "api",
            **tls,
        },
        # A dashboard that is not there: the API knows why, and says it.
        "absent": {
            "entryPoints": [PUBLIC],
            "rule": f"PathPrefix(`{base}/clusters/`){not_there}",
            "priority": _LAST_PRIORITY,
            "middlewares": [*login, *middlewares],
            "service": "api",
            **tls,
        },
    }
    if settings.dashboard_host:
        host = f"Host(`{settings.dashboard_host}`)"
        routers["absent-there"] = {
            **routers["absent"],
            "rule": f"{host} && PathPrefix(`{base}/clusters/`)",
            "middlewares": ["dashboard-login", *middlewares],
        }
    if settings.tls:
        routers["to-https"] = {
            "entryPoints": [PUBLIC],
            "rule": "PathPrefix(`/`)",
            "priority": _LAST_PRIORITY,
            "middlewares": ["to-https"],
            "service": "noop@internal",
        }
    if settings.internal_port is not None:
        # Traefik answers before it has read its table, and `/ping` does not
        # tell; this does.
        routers["loaded"] = {
            "entryPoints": [INTERNAL],
            "rule": f"Path(`{LOADED_PATH}`)",
            "service": "ping@internal",
        }
        routers["login"] = {
            "entryPoints": [INTERNAL],
            "rule": f"Path(`{AUTH_PATH}`)",
            "middlewares": ["api-retry"],
            "service": "api",
        }
    return routers


def _build_dashboard_router(route: Route, settings: TableSettings) -> dict[str, Any]:
    path = f"{settings.base_path}/clusters/{route.cluster}"
    rule = f"Path(`{path}`) || PathPrefix(`{path}/`)"
    if settings.dashboard_host is not None:
        rule = f"Host(`{settings.dashboard_host}`) && ({rule})"
    return {
        "entryPoints": [PUBLIC],
        "rule": rule,
        "priority": _CLUSTER_PRIORITY,
        "middlewares": [
            "dashboard-login",
            "dashboard-root",
            "dashboard-strip",
            "dashboard-headers",
        ],
        "service": f"cluster-{route.cluster}",
        **({"tls": {}} if settings.tls else {}),
    }


def _build_dashboard_service(route: Route) -> dict[str, Any]:
    assert route.dashboard_port is not None  # noqa: S101 - the caller chose these
    url = f"http://{format_host_port(route.host, route.dashboard_port)}"
    return {
        "loadBalancer": {"serversTransport": "dashboard", "servers": [{"url": url}]}
    }


def _format_login_url(settings: TableSettings) -> str:
    # By way of our own entry point, any gateway can answer, and a restarting
    # one is waited for.
    if settings.internal_port is not None:
        return f"http://127.0.0.1:{settings.internal_port}{AUTH_PATH}"
    return f"{settings.gateway_urls[0].rstrip('/')}{AUTH_PATH}"


def _build_tcp(routes: tuple[Route, ...], settings: TableSettings) -> dict[str, Any]:
    entry_points = [settings.dask_entry_point]
    routers: dict[str, Any] = {
        # `.+` alone would also take the names of the API.
        "unknown": {
            "entryPoints": entry_points,
            "rule": f"HostSNIRegexp(`^{SNI_PREFIX}.+$`)",
            "priority": _LAST_PRIORITY,
            "tls": {"passthrough": True},
            "service": "closed",
        }
    }
    if settings.dask_entry_point != PUBLIC:
        routers["other"] = {
            "entryPoints": entry_points,
            "rule": "HostSNI(`*`)",
            "priority": _LAST_PRIORITY,
            "service": "closed",
        }
    services: dict[str, Any] = {
        "closed": {"loadBalancer": {"servers": [{"address": _CLOSED}]}}
    }
    for route in routes:
        name = f"cluster-{route.cluster}"
        routers[name] = {
            "entryPoints": entry_points,
            "rule": f"HostSNI(`{format_sni(route.cluster)}`)",
            "priority": _CLUSTER_PRIORITY,
            "tls": {"passthrough": True},
            "service": name,
        }
        address = format_host_port(route.host, route.scheduler_port)
        services[name] = {
            "loadBalancer": {
                "serversTransport": "dask",
                "servers": [{"address": address}],
            }
        }
    return {
        "routers": routers,
        "services": services,
        "serversTransports": {"dask": {"dialTimeout": "10s"}},
    }


def _parse_route(name: str, table: Mapping[str, Any]) -> Route:
    address = table["tcp"]["services"][name]["loadBalancer"]["servers"][0]["address"]
    scheduler = urlsplit(f"//{address}")
    dashboard = table["http"]["services"].get(name)
    dashboard_port = None
    if dashboard is not None:
        dashboard_port = urlsplit(dashboard["loadBalancer"]["servers"][0]["url"]).port
    if scheduler.hostname is None or scheduler.port is None:
        raise ValueError(f"not a routing table of ours: address {address!r}")
    return Route(
        cluster=name.removeprefix("cluster-"),
        host=scheduler.hostname,
        scheduler_port=scheduler.port,
        dashboard_port=dashboard_port,
    )
