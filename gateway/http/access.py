"""Who may address which cluster."""

from aiohttp import web

from gateway.domain.cluster import Cluster
from gateway.domain.errors import ClusterNotFound
from gateway.domain.names import is_cluster_name
from gateway.http.identity import get_user
from gateway.http.services import get_backend


def get_name(request: web.Request) -> str:
    """Return the cluster's name in the path of ``request``.

    Raises
    ------
    ClusterNotFound
        If no cluster can have it; the store is not asked.
    """
    name = request.match_info["name"]
    if not is_cluster_name(name):
        raise ClusterNotFound(name)
    return name


async def find_cluster(request: web.Request) -> Cluster:
    """Return the cluster in the path of ``request``, if the caller may use it.

    Raises
    ------
    ClusterNotFound
        If there is none, or it is another user's: both look alike.
    """
    name = get_name(request)
    cluster = await get_backend(request).get_cluster(name)
    if not get_user(request).may_use(cluster.owner):
        raise ClusterNotFound(name)
    return cluster
