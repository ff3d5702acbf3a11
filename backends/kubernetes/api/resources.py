"""Kinds that we ask for, and where the API server has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from backends.kubernetes.names import API_VERSION, PLURAL

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resource:
    """A namespaced kind.

    Parameters
    ----------
    base
        ``/api/v1`` or ``/apis/<group>/<version>``.
    plural
        As in URLs.
    """

    base: str
    plural: str

    def format_path(
        self, namespace: str | None, name: str = "", subresource: str = ""
    ) -> str:
        """Return the path of an object, or of a list; ``None`` is all namespaces.

        Examples
        --------
        >>> PODS.format_path("team", "p/../q", "log")
        '/api/v1/namespaces/team/pods/p%2F..%2Fq/log'
        """
        space = "" if namespace is None else f"/namespaces/{quote(namespace, safe='')}"
        parts = [f"{self.base}{space}/{self.plural}"]
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


PODS: Final = Resource("/api/v1", "pods")
SERVICES: Final = Resource("/api/v1", "services")
SECRETS: Final = Resource("/api/v1", "secrets")
CONFIG_MAPS: Final = Resource("/api/v1", "configmaps")
NAMESPACES: Final = Resource("/api/v1", "namespaces")
EVENTS: Final = Resource("/api/v1", "events")
LEASES: Final = Resource("/apis/coordination.k8s.io/v1", "leases")
CLUSTERS: Final = Resource(f"/apis/{API_VERSION}", PLURAL)
HTTP_ROUTES: Final = Resource("/apis/traefik.io/v1alpha1", "ingressroutes")
TCP_ROUTES: Final = Resource("/apis/traefik.io/v1alpha1", "ingressroutetcps")
MIDDLEWARES: Final = Resource("/apis/traefik.io/v1alpha1", "middlewares")
CLUSTER_ROLES: Final = Resource("/apis/rbac.authorization.k8s.io/v1", "clusterroles")


def format_query(query: Query | None) -> str:
    """Return ``query`` as it stands in a URL, with its question mark."""
    return f"?{urlencode(query)}" if query else ""
