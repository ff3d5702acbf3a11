"""Pods as an API server shows them, with what a kubelet says of Dask in them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from backends.kubernetes.crd.formatting import format_time
from backends.kubernetes.names import (
    LABEL_CLUSTER,
    LABEL_COMPONENT,
    Component,
    format_scheduler_name,
)
from gateway.domain.names import format_worker_name

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIDECAR = {"name": "proxy", "state": {"running": {}}}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def at(seconds: float) -> str:
    """Return an instant that many seconds after `NOW`, as Kubernetes writes it."""
    return format_time(NOW + timedelta(seconds=seconds))


def scheduled(seconds: float = 0) -> dict[str, Any]:
    return {**SCHEDULED, "lastTransitionTime": at(seconds)}


def container(state: dict[str, Any], name: str = "dask-worker") -> dict[str, Any]:
    return {"name": name, "state": state}


def started(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the status of a worker whose node has taken it; a sidecar runs."""
    status = {
        "phase": "Running",
        "conditions": [scheduled()],
        "containerStatuses": [SIDECAR, container(state)],
    }
    return {**status, **more}


def ended(code: int, **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **more}}


def waiting(
    reason: str, message: str = "", *, name: str = "dask-worker"
) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    statuses = [SIDECAR, container(state, name)]
    return started(state, phase="Pending", containerStatuses=statuses)


PENDING: dict[str, Any] = {"phase": "Pending"}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
        }
    ],
}
WAITING = started({"waiting": {}}, phase="Pending")
RUNNING = started({"running": {}})
SUCCEEDED = started(ended(0))
FAILED = started(ended(1))
OOM_KILLED = started(ended(137, reason="OOMKilled"))
EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
}
LOST = {"phase": "Unknown"}


def a_pod(
    ordinal: int,
    *,
    cluster: str = "c",
    status: dict[str, Any] = PENDING,
    uid: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return a worker pod of ``cluster``; see `_pod` for the rest."""
    name = format_worker_name(cluster, ordinal)
    return _pod(cluster, name, Component.WORKER, status, uid or f"u{ordinal}", **more)


def a_scheduler(
    *,
    cluster: str = "c",
    status: dict[str, Any] = PENDING,
    uid: str = "us",
    **more: Any,
) -> dict[str, Any]:
    """Return the scheduler pod of ``cluster``; see `_pod` for the rest."""
    name = format_scheduler_name(cluster)
    return _pod(cluster, name, Component.SCHEDULER, status, uid, **more)


def _pod(
    cluster: str,
    name: str,
    component: Component,
    status: dict[str, Any],
    uid: str,
    *,
    version: int = 1,
    owner: str = "anchor",
    created: float = 0,
    **metadata: Any,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": at(created),
            "labels": {LABEL_CLUSTER: cluster, LABEL_COMPONENT: str(component)},
            "ownerReferences": [{"kind": "Service", "uid": owner}],
            **metadata,
        },
        "status": status,
    }
