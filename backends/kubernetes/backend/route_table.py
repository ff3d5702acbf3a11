"""Which clusters the proxy passes traffic to, and where. Pure."""

from collections.abc import Iterable

from backends.database.routes import Route
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import (
    DASHBOARD_PORT,
    SCHEDULER_PORT,
    format_host,
    is_namespace,
    is_object_name,
)
from backends.kubernetes.planning.conditions import ConditionType
from gateway.domain.cluster import ClusterPhase


def list_routes(clusters: Iterable[DaskCluster]) -> tuple[Route, ...]:
    """Return the routes of ``clusters``, by name.

    A cluster has one from when its scheduler answers, which is before the
    controller can prove it at the public port, until a stop is accepted.
    """
    routes = [_build_route(cluster) for cluster in clusters if is_routed(cluster)]
    return tuple(sorted(routes, key=lambda route: route.cluster))


def is_routed(cluster: DaskCluster) -> bool:
    """Return whether there is a scheduler to pass traffic to.

    A running one keeps its route while its probe fails: only the controller
    decides what has ended.
    """
    if cluster.is_deleting or not cluster.spec.active:
        return False
    # Both end up in rules and host names, whoever made the object.
    if not is_object_name(cluster.name):
        return False
    if not is_namespace(cluster.spec.target_namespace):
        return False
    match cluster.status.phase:
        case ClusterPhase.RUNNING:
            return True
        case ClusterPhase.PENDING:
            return any(
                condition.status == "True"
                for condition in cluster.status.conditions
                if condition.type == ConditionType.SCHEDULER_READY
            )
        case _:
            return False


def _build_route(cluster: DaskCluster) -> Route:
    return Route(
        cluster=cluster.name,
        host=format_host(cluster.name, cluster.spec.target_namespace),
        scheduler_port=SCHEDULER_PORT,
        dashboard_port=DASHBOARD_PORT,
    )
