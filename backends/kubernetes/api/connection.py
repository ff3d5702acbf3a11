"""Where the API server is and who we are there, from where a program finds it."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from gateway.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Connection:
    """An address, whom to trust there, and what proves who we are.

    Parameters
    ----------
    configuration
        Of ``kubernetes_asyncio``: it reads a token again as it is rotated.
    context
        For TLS, with our certificate if we have one.
    namespace
        In which this program runs, or the kubeconfig's; ``default`` if none.
    """

    configuration: Configuration
    context: ssl.SSLContext
    namespace: str

    @property
    def url(self) -> str:
        """``https://HOST:PORT``."""
        return str(self.configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        """Name that the server's certificate has, if it is not the URL's."""
        name = self.configuration.tls_server_name
        return str(name) if name else None

    async def read_headers(self) -> dict[str, str]:
        """Return the headers that prove who we are, as they are now."""
        found = await self.configuration.auth_settings()
        token = found.get("BearerToken")
        return {"Authorization": token["value"]} if token else {}


async def load_connection(kubeconfig: str = "", context: str = "") -> Connection:
    """Find the API server.

    Parameters
    ----------
    kubeconfig
        File; "" is the pod's service account inside Kubernetes, else
        ``KUBECONFIG`` or ``~/.kube/config``.
    context
        Of the kubeconfig; "" is its current one.

    Raises
    ------
    ConfigError
        If there is none, or it cannot be used.
    """
    # In a thread with a loop of its own: it reads files, and may run programs.
    return await asyncio.to_thread(asyncio.run, _load(kubeconfig, context))


async def _load(kubeconfig: str, context: str) -> Connection:
    configuration = Configuration()
    inside = not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if inside:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the library's
            namespace = _read_own_namespace()
        else:
            await config.load_kube_config(
                config_file=kubeconfig or None,
                context=context or None,
                client_configuration=configuration,
            )
            namespace = _read_namespace(kubeconfig, context)
        return Connection(configuration, _make_context(configuration), namespace)
    except (config.ConfigException, OSError, ssl.SSLError, TypeError) as error:
        where = kubeconfig or "the pod's service account or ~/.kube/config"
        raise ConfigError([f"no Kubernetes API server by {where}: {error}"]) from error


def _make_context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _read_own_namespace() -> str:
    path = Path(config.incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
    return path.read_text().strip() if path.exists() else "default"


def _read_namespace(kubeconfig: str, context: str) -> str:
    contexts, current = config.list_kube_config_contexts(kubeconfig or None)
    named = [c for c in contexts if c["name"] == context] or [current]
    return str(named[0]["context"].get("namespace", "default"))
