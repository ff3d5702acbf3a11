"""What an operator says about the proxy; `backends.routing` acts on it."""

from typing import Any

from traitlets import (
    Bool,
    CaselessStrEnum,
    List,
    TraitError,
    Unicode,
    default,
    validate,
)

from gateway.config.section import Section
from gateway.config.traits import Address


class Proxy(Section):
    """The one public port: API, dashboards and Dask traffic."""

    address = Address(
        ":8000",
        help="""
        `[host]:port` of the public port. Without a host it listens on all
        interfaces.
        """,
    ).tag(config=True)

    tcp_address = Address(
        "",
        help="""
        `[host]:port` for Dask traffic alone.

        By default it shares `address`.
        """,
    ).tag(config=True)

    prefix = Unicode(
        "",
        help="""
        Path below which everything is served, such as `/services/dask-gateway`.
        It starts with a slash.
        """,
    ).tag(config=True)

    gateway_url = Unicode(
        help="""
        URL at which the proxy reaches this gateway, without a path. Gateways on one
        database tell each other theirs, and the proxy sends requests to all of them;
        on several machines each needs one that is no loopback.

        By default it is made of `DaskGateway.address`.
        """,
    ).tag(config=True)

    public_url = Unicode(
        "",
        help="""
        URL at which users reach the proxy, where it differs from `address`: behind
        a load balancer, say.
        """,
    ).tag(config=True)

    tls_cert = Unicode(
        "",
        help="""
        PEM file of the certificate chain for HTTPS on the public port; needs
        `tls_key`. A renewed file is taken over without a restart.
        """,
    ).tag(config=True)

    tls_key = Unicode(
        "", help="PEM file of the private key that belongs to `tls_cert`."
    ).tag(config=True)

    dashboard_host = Unicode(
        "",
        help="""
        Host name under which alone dashboards are served, apart from the API's
        origin, at the same port. A dashboard is a user's own program, so this is
        safer.

        By default they are served under every name.
        """,
    ).tag(config=True)

    trusted_proxies = List(
        Unicode(),
        help="""
        Networks such as `10.0.0.0/8` of load balancers in front, whose
        `X-Forwarded-*` headers are believed.
        """,
    ).tag(config=True)

    externally_managed = Bool(
        default_value=False,
        help="""
        Someone else runs Traefik with our files; the gateway only writes its
        table of routes.
        """,
    ).tag(config=True)

    stop_on_exit = Bool(
        default_value=False,
        help="""
        End the proxy with the gateway. By default it goes on, with the
        connections of all clusters, and the next gateway takes it over.
        """,
    ).tag(config=True)

    log_level = CaselessStrEnum(
        ["error", "warn", "info", "debug"],
        default_value="warn",
        help="Least level of the proxy's own log: error, warn, info or debug.",
    ).tag(config=True)

    binary = Unicode(
        "",
        help="""
        Path of Traefik, 3.7 or newer.

        By default it is looked for beside Python and on the PATH.
        """,
    ).tag(config=True)

    probe_address = Address(
        "",
        help="""
        `host:port` at which routes are proved before a cluster is called running.

        By default the address for Dask traffic, on this machine.
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        super().__init__(**kwargs)
        if self.tcp_address == self.address:
            # The peer's default, which some files write out: one port for both.
            self.tcp_address = ""

    @default("gateway_url")
    def _default_gateway_url(self) -> str:
        return str(getattr(self.parent, "gateway_url", ""))

    @validate("prefix")
    def _check_prefix(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        prefix = str(proposal["value"])
        if prefix and not prefix.startswith("/"):
            raise TraitError(f"must start with a slash, got {prefix!r}")
        return prefix.rstrip("/")

    def find_problems(self) -> list[str]:
        """Return what does not fit together, one line each."""
        if bool(self.tls_cert) == bool(self.tls_key):
            return []
        return ["Proxy.tls_cert and Proxy.tls_key need each other: set both, or none"]
