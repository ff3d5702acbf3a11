"""From what an operator configured of the proxy to a table of routes."""

from pathlib import Path

from typing_extensions import override

from backends.routing.routes import TraefikRoutes
from backends.routing.settings import RoutingSettings
from gateway.config.proxy import Proxy
from gateway.ports import Clock


class EndingRoutes(TraefikRoutes):
    """Routes whose proxy ends with the gateway."""

    @override
    async def cleanup(self) -> None:
        await super().cleanup()
        await self.end_proxy()


def make_routes(
    proxy: Proxy, *, data_directory: Path, gateway_url: str, clock: Clock
) -> TraefikRoutes:
    """Return the routes that ``proxy`` describes, not yet set up.

    Parameters
    ----------
    proxy
        The operator's settings.
    data_directory
        Of the gateway.
    gateway_url
        Where the API listens, unless the operator says where the proxy finds it.
    clock
        Dates the default certificate.
    """
    kind = EndingRoutes if proxy.stop_on_exit else TraefikRoutes
    return kind(build_settings(proxy, data_directory, gateway_url), clock)


def build_settings(
    proxy: Proxy, data_directory: Path, gateway_url: str
) -> RoutingSettings:
    """Return the operator's settings as plain values; see `make_routes`."""
    return RoutingSettings(
        data_directory=data_directory,
        gateway_urls=(proxy.gateway_url or gateway_url,),
        address=proxy.address,
        tcp_address=proxy.tcp_address or None,
        prefix=proxy.prefix,
        tls_cert=Path(proxy.tls_cert) if proxy.tls_cert else None,
        tls_key=Path(proxy.tls_key) if proxy.tls_key else None,
        dashboard_host=proxy.dashboard_host or None,
        trusted_proxies=tuple(proxy.trusted_proxies),
        log_level=proxy.log_level.upper(),
        externally_managed=proxy.externally_managed,
        binary=Path(proxy.binary) if proxy.binary else None,
        probe_address=proxy.probe_address or None,
    )
