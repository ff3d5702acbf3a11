"""What an operator configures of the table that the proxy fetches."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from traitlets import Integer, List, Unicode
from yarl import URL

from backends.kubernetes.config import KubeSettings
from backends.routing.table import DASK, PUBLIC, TableSettings
from gateway.config.proxy import Proxy

_SHORTEST_TOKEN: Final = 16


class KubeProxySettings(KubeSettings):
    """What an API server on Kubernetes needs to know of the proxy."""

    routes_token_file = Unicode(
        help="""
        File with the token that the proxy shows for its table of routes, at
        `/routes` of the API's own port: Traefik's HTTP provider. It has at least 16
        characters.

        Without it no table is served: with `KubeController.routes` set to
        `ingressroute`, none is needed.
        """,
    ).tag(config=True)

    gateway_urls = List(
        Unicode(),
        help="""
        Where the proxy reaches the API, `http://host:port` each: usually the Service
        of all API servers. It must be the same for all of them.

        By default `Proxy.gateway_url` alone.
        """,
    ).tag(config=True)

    proxy_internal_port = Integer(
        0,
        min=0,
        max=65535,
        help="""
        Port of an entry point `internal` that the proxy has on 127.0.0.1, for login
        checks: they then go to all API servers, and wait while one restarts.

        By default the first of `gateway_urls` is asked.
        """,
    ).tag(config=True)

    def resolve_table(self, proxy: Proxy) -> TableSettings:
        """Return what the table of routes is made with.

        Parameters
        ----------
        proxy
            Its files are where the proxy runs; here they need not be.
        """
        return TableSettings(
            gateway_urls=tuple(self.gateway_urls) or (proxy.gateway_url,),
            certificate=proxy.tls_cert,
            key=proxy.tls_key,
            base_path=proxy.prefix,
            tls=bool(proxy.tls_cert),
            dask_entry_point=DASK if proxy.tcp_address else PUBLIC,
            internal_port=self.proxy_internal_port or None,
            dashboard_host=proxy.dashboard_host or None,
        )

    def find_proxy_problems(self) -> Sequence[str]:
        """Return what is wrong with these settings, one line each."""
        name = type(self).__name__
        problems = [
            f"{name}.gateway_urls: {url!r} is no http://host:port"
            for url in self.gateway_urls
            if not _is_origin(url)
        ]
        path = self.routes_token_file
        if path and (why := _find_token_problem(Path(path))):
            problems.append(f"{name}.routes_token_file: {why}")
        return problems


def _is_origin(text: str) -> bool:
    try:
        url = URL(text)
        return (
            url.scheme in {"http", "https"} and bool(url.host) and url == url.origin()
        )
    except ValueError:
        return False


def _find_token_problem(path: Path) -> str:
    try:
        token = path.read_text("utf-8").strip()
    except OSError as error:
        return f"{path}: {error.strerror}"
    except UnicodeError:
        return f"{path} is no text"
    if len(token) < _SHORTEST_TOKEN:
        return f"the token in {path} has less than {_SHORTEST_TOKEN} characters"
    return ""
