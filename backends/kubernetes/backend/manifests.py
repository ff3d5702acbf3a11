"""The ``DaskCluster`` that an accepted request makes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from backends.kubernetes.cluster_config import (
    build_lifetimes_spec,
    build_scheduler_settings,
    build_worker_settings,
)
from backends.kubernetes.crd.formatting import format_instant, format_new_cluster
from backends.kubernetes.crd.parsing import MAX_WORKERS
from backends.kubernetes.crd.values import (
    ClusterSpec,
    LimitsSpec,
    Owner,
    RoleSpec,
    WorkerSpec,
)
from backends.kubernetes.desired.templates import build_template
from backends.kubernetes.names import (
    ANNOTATION_CREATED,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    LABEL_OWNER,
    MANAGED_BY,
    PEER_LABEL_INSTANCE,
    SCHEDULER_CONTAINER,
    WORKER_CONTAINER,
    escape_label,
)
from gateway.domain.config import ResolvedConfig


def build_spec(
    owner: Owner, options: Mapping[str, Any], resolved: ResolvedConfig
) -> ClusterSpec:
    """Return what is wanted of a new cluster.

    Parameters
    ----------
    options
        As they are stored, JSON values.
    resolved
        A `KubeClusterConfig` whose namespace is the target.
    """
    scheduler = build_template(build_scheduler_settings(resolved), SCHEDULER_CONTAINER)
    worker = build_template(build_worker_settings(resolved), WORKER_CONTAINER)
    return ClusterSpec(
        owner=owner,
        options=dict(options),
        target_namespace=resolved.extra["namespace"],
        scheduler=RoleSpec(command=resolved.scheduler_cmd, template=scheduler),
        worker=WorkerSpec(
            command=resolved.worker_cmd,
            template=worker,
            threads=resolved.worker_threads,
        ),
        limits=build_limits(resolved),
        lifetimes=build_lifetimes_spec(resolved),
    )


def build_limits(resolved: ResolvedConfig) -> LimitsSpec:
    """Return a cluster's cap, and what its pods count for."""
    most = resolved.max_workers
    return LimitsSpec(
        max_workers=None if most is None else min(most, MAX_WORKERS),
        scheduler_cores=resolved.scheduler_cores,
        scheduler_memory_bytes=resolved.scheduler_memory_bytes,
        worker_cores=resolved.worker_cores,
        worker_memory_bytes=resolved.worker_memory_bytes,
    )


def build_manifest(
    name: str,
    spec: ClusterSpec,
    *,
    namespace: str,
    instance: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    now: datetime,
) -> dict[str, Any]:
    """Return the object to create.

    Parameters
    ----------
    namespace
        The gateway's own.
    labels, annotations
        The operator's; ours come before them.
    """
    ours = {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_INSTANCE: instance,
        PEER_LABEL_INSTANCE: instance,
        LABEL_OWNER: escape_label(spec.owner.user),
    }
    return format_new_cluster(
        name,
        namespace,
        spec,
        labels={**labels, **ours},
        annotations={**annotations, ANNOTATION_CREATED: format_instant(now)},
    )
