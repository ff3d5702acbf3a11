"""What an operator configures of route objects, with the peer's names."""

from typing import Any

from traitlets import Dict, Enum, List, Unicode
from traitlets import validate as validates

from backends.kubernetes.desired.blueprint import RouteSettings
from backends.routing.settings import is_prefix
from gateway.config.section import Section


class KubeRouteSettings(Section):
    """How a controller's clusters get their routes."""

    routes = Enum(
        ["http", "ingressroute"],
        default_value="http",
        help="""
        How the proxy learns of clusters: from the API server, or from IngressRoute
        objects that the controller makes for a Traefik of the platform's.
        """,
    ).tag(config=True)

    proxy_prefix = Unicode(help="What every public path starts with.").tag(config=True)

    proxy_web_entrypoint = Unicode(
        "web", help="Traefik's entry point for HTTP, with `ingressroute`."
    ).tag(config=True)

    proxy_tcp_entrypoint = Unicode(
        "tcp", help="Traefik's entry point for schedulers, with `ingressroute`."
    ).tag(config=True)

    proxy_web_middlewares: Any = List(
        Dict(),
        help="""
        Middlewares of the platform's for dashboards: `{'name': ..., 'namespace': ...}`.
        They come before the gateway's own, which ask for a login, strip the path and
        keep credentials away.
        """,
    ).tag(config=True)

    proxy_login_url = Unicode(
        help="""
        URL at which Traefik asks whether a visitor may see a dashboard, with
        `ingressroute`: `/api/v1/dashboard-auth` of the API, not by way of Traefik.

        By default it is made of `api_url`.
        """,
    ).tag(config=True)

    @validates("proxy_prefix")
    def _check_prefix(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        prefix = str(proposal["value"]).strip("/")
        return f"/{prefix}" if prefix else ""

    def find_route_problems(self) -> list[str]:
        """Return what is wrong with these settings, one line each."""
        if is_prefix(self.proxy_prefix):
            return []
        text = f"{self.proxy_prefix!r} is no path of letters, digits, ., ~, - and _"
        return [f"{type(self).__name__}.proxy_prefix: {text}"]

    def resolve_routes(self) -> RouteSettings | None:
        """Return how route objects are made; ``None`` if none are."""
        if self.routes != "ingressroute":
            return None
        return RouteSettings(
            web_entry_point=self.proxy_web_entrypoint,
            tcp_entry_point=self.proxy_tcp_entrypoint,
            prefix=self.proxy_prefix,
            middlewares=tuple(
                (entry["name"], entry.get("namespace", ""))
                for entry in self.proxy_web_middlewares
            ),
            login_url=self.proxy_login_url,
        )
