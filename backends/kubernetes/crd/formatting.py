"""Write a ``DaskCluster``: the new object, and one small merge patch per writer.

Each writer has its own fields, so that nobody's patch undoes another's: people
and the API server the spec, the controller the status, and of the status the API
server `AdaptiveTarget`, the first sync and the first worker.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    ClusterSpec,
    ClusterStatus,
)
from backends.kubernetes.names import (
    ANNOTATION_ASKED,
    ANNOTATION_STOP_MESSAGE,
    ANNOTATION_STOP_REASON,
    API_VERSION,
    KIND,
)

Patch = dict[str, Any]

# What the controller never writes; see `ClusterStatus`.
API_SERVER_FIELDS: Final = frozenset(
    {"adaptiveTarget", "firstSyncTime", "firstWorkerTime"}
)


def format_new_cluster(
    name: str,
    namespace: str,
    spec: ClusterSpec,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
) -> Patch:
    """Return the object to create.

    Parameters
    ----------
    owner
        Owner reference: the chart's anchor in the gateway's namespace.
    """
    metadata: Patch = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def format_stop_patch(reason: str, message: str) -> Patch:
    """Return the patch that asks for a stop, with who and why."""
    annotations = {ANNOTATION_STOP_REASON: reason, ANNOTATION_STOP_MESSAGE: message}
    return {"metadata": {"annotations": annotations}, "spec": {"active": False}}


def format_scale_patch(replicas: int) -> Patch:
    """Return the patch for a number of workers; it ends adaptive mode."""
    return {"spec": {"workers": {"replicas": replicas, "adaptive": None}}}


def format_asked_patch(now: datetime) -> Patch:
    """Return the part of a patch that says when people asked for workers."""
    return {"metadata": {"annotations": {ANNOTATION_ASKED: format_instant(now)}}}


def format_adapt_patch(adaptive: AdaptiveSpec) -> Patch:
    """Return the patch for adaptive bounds."""
    return {"spec": {"workers": {"adaptive": msgspec.to_builtins(adaptive)}}}


def format_target_patch(target: AdaptiveTarget) -> Patch:
    """Return the status patch for what the plugin wants (API server)."""
    return {"status": {"adaptiveTarget": msgspec.to_builtins(target)}}


def join_patches(patches: Iterable[Patch]) -> Patch:
    """Return patches of different fields as one, so that they are one write.

    Examples
    --------
    >>> join_patches([{"status": {"a": 1}}, {"status": {"b": 2}}])
    {'status': {'a': 1, 'b': 2}}
    """
    joined: Patch = {}
    for patch in patches:
        for key, value in patch.items():
            both = isinstance(value, dict) and isinstance(joined.get(key), dict)
            joined[key] = join_patches([joined[key], value]) if both else value
    return joined


def format_precondition(uid: str, resource_version: str | None = None) -> Patch:
    """Return the part of a patch that holds only for one object, or one version.

    Examples
    --------
    >>> format_precondition("u", "7")
    {'metadata': {'uid': 'u', 'resourceVersion': '7'}}
    """
    metadata = {"uid": uid}
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {"metadata": metadata}


def format_first_sync_patch(now: datetime) -> Patch:
    """Return the status patch for the first call of a scheduler (API server)."""
    return {"status": {"firstSyncTime": format_time(now)}}


def format_first_worker_patch(now: datetime) -> Patch:
    """Return the status patch for the first connected worker (API server)."""
    return {"status": {"firstWorkerTime": format_time(now)}}


def format_status_patch(
    before: ClusterStatus, after: ClusterStatus, *, resource_version: str
) -> Patch:
    """Return the controller's status patch: a compare-and-set of what differs.

    Parameters
    ----------
    before
        As it was at ``resource_version``.
    after
        As it is to be. The API server's own fields are not looked at.
    resource_version
        A precondition: the server answers 409 if the object has been written
        since, or is another one of the same name.

    Returns
    -------
    dict
        Where nothing differs it holds only the precondition; the server then
        compares and writes nothing.

    Examples
    --------
    >>> lost = ClusterStatus(host="h", reason="r")
    >>> patch = format_status_patch(
    ...     lost, ClusterStatus(host="h"), resource_version="7"
    ... )
    >>> patch == {"metadata": {"resourceVersion": "7"},
    ...           "status": {"reason": None}}
    True
    """
    patch: Patch = {"metadata": {"resourceVersion": resource_version}}
    changed = _differ(_own_fields(before), _own_fields(after))
    if changed:
        patch["status"] = changed
    return patch


def format_time(instant: datetime) -> str:
    """Return ``instant`` as Kubernetes writes it, to the second.

    Examples
    --------
    >>> format_time(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_instant(instant: datetime) -> str:
    """Return ``instant`` to the millisecond, for annotations.

    Examples
    --------
    >>> format_instant(datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC))
    '2026-01-02T03:04:05.678Z'
    """
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def format_status(status: ClusterStatus) -> Patch:
    """Return ``status`` as JSON values, without what is a default."""
    return dict(msgspec.to_builtins(status))


def _own_fields(status: ClusterStatus) -> Patch:
    values = format_status(status)
    if status.start_time is not None:
        # Shown from the first write on, so that printed columns are never empty.
        workers = status.workers
        counts = {"wanted": workers.wanted, "ready": workers.ready}
        values["phase"] = str(status.phase)
        values["workers"] = values.get("workers", {}) | counts
    return {key: value for key, value in values.items() if key not in API_SERVER_FIELDS}


def _differ(before: Patch, after: Patch) -> Patch:
    """Return the merge patch that makes ``after`` of ``before``."""
    patch: Patch = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _differ(old, value):
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch
