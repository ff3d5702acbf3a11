"""Configuration of one cluster on Kubernetes, and the pods that it makes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from traitlets import Dict, List, Unicode, default

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import LifetimesSpec
from backends.kubernetes.desired.blueprint import (
    SCHEDULER_COMMAND,
    WORKER_COMMAND,
    PodSettings,
)
from backends.kubernetes.desired.templates import lay
from backends.kubernetes.names import SCHEDULER_CONTAINER, WORKER_CONTAINER
from gateway.config.cluster import ClusterConfig
from gateway.config.traits import Cores, MemoryLimit, Seconds
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import ConfigError, InvalidRequest

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_EXTRA_CONTAINER: Final = """
Fields of the Dask container, such as `{"securityContext": ...}`. Maps are merged,
lists of named things by their names; other lists replace ours.
"""
_EXTRA_POD: Final = """
Fields of the pod's spec, such as `{"tolerations": [...]}`; merged likewise.
"""


class KubeClusterConfig(ClusterConfig):
    """Settings of each cluster on Kubernetes."""

    namespace = Unicode(
        help="""
        Namespace of the cluster's pods. Must be one that the gateway serves.

        By default the gateway's own.
        """,
    ).tag(config=True)

    image = Unicode(
        "daskgateway/dask-gateway:latest",
        help="Image of schedulers and workers; it needs `distributed`.",
    ).tag(config=True)

    image_pull_policy = Unicode(
        None,
        allow_none=True,
        help="`Always`, `IfNotPresent` or `Never`; `None` leaves it to Kubernetes.",
    ).tag(config=True)

    image_pull_secrets: Any = List(
        help="Names of Secrets with registries' passwords, or `{'name': ...}`.",
    ).tag(config=True)

    worker_cores = Cores(
        1, help="Cores that one worker requests; three decimals count."
    ).tag(config=True)

    worker_cores_limit = Cores(
        None,
        allow_none=True,
        help="Most cores of one worker; `None` is as many as it requests.",
    ).tag(config=True)

    worker_memory_limit = MemoryLimit(
        None,
        allow_none=True,
        help="Most memory of one worker; `None` is as much as it requests.",
    ).tag(config=True)

    scheduler_cores_limit = Cores(
        None,
        allow_none=True,
        help="Most cores of the scheduler; `None` is as many as it requests.",
    ).tag(config=True)

    scheduler_memory_limit = MemoryLimit(
        None,
        allow_none=True,
        help="Most memory of the scheduler; `None` is as much as it requests.",
    ).tag(config=True)

    worker_extra_container_config = Dict(help=_EXTRA_CONTAINER).tag(config=True)
    scheduler_extra_container_config = Dict(help=_EXTRA_CONTAINER).tag(config=True)
    worker_extra_pod_config = Dict(help=_EXTRA_POD).tag(config=True)
    scheduler_extra_pod_config = Dict(help=_EXTRA_POD).tag(config=True)
    worker_extra_pod_annotations = Dict(help="Annotations of worker pods.").tag(
        config=True
    )
    scheduler_extra_pod_annotations = Dict(help="Annotations of scheduler pods.").tag(
        config=True
    )
    worker_extra_pod_labels = Dict(help="Labels of worker pods.").tag(config=True)
    scheduler_extra_pod_labels = Dict(help="Labels of scheduler pods.").tag(config=True)

    scheduler_start_timeout = Seconds(
        600,
        help="""
        Seconds from a cluster's first sight until it must be running. Nodes may have
        to be bought for it.
        """,
    ).tag(config=True)

    worker_start_timeout = Seconds(
        600,
        help="""
        Seconds from the node's choice until a worker's program must run, and then
        again until it must be connected. A worker that waits for a node is not late.
        """,
    ).tag(config=True)

    image_pull_timeout = Seconds(
        120,
        help="Seconds for which an image may fail to come; a slow one is no failure.",
    ).tag(config=True)

    @default("namespace")
    def _default_namespace(self) -> str:
        return read_own_namespace()


def read_own_namespace() -> str:
    """Return the namespace of this pod, ``default`` outside of Kubernetes."""
    try:
        return _NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def build_scheduler_settings(resolved: ResolvedConfig) -> PodSettings:
    """Return the scheduler pods that a cluster's configuration makes."""
    extra = resolved.extra
    return PodSettings(
        command=resolved.scheduler_cmd or SCHEDULER_COMMAND,
        cores=resolved.scheduler_cores,
        memory_bytes=resolved.scheduler_memory_bytes,
        cores_limit=extra["scheduler_cores_limit"],
        memory_limit_bytes=extra["scheduler_memory_limit"],
        environment=resolved.environment,
        template=_build_template(extra, "scheduler", SCHEDULER_CONTAINER),
        **_shared(extra),
    )


def build_worker_settings(resolved: ResolvedConfig) -> PodSettings:
    """Return the worker pods that a cluster's configuration makes."""
    extra = resolved.extra
    return PodSettings(
        command=resolved.worker_cmd or WORKER_COMMAND,
        cores=resolved.worker_cores,
        memory_bytes=resolved.worker_memory_bytes,
        cores_limit=extra["worker_cores_limit"],
        memory_limit_bytes=extra["worker_memory_limit"],
        threads=resolved.worker_threads,
        environment=resolved.environment,
        template=_build_template(extra, "worker", WORKER_CONTAINER),
        **_shared(extra),
    )


def build_lifetimes(resolved: ResolvedConfig, retention_s: float) -> Lifetimes:
    """Return the lifetimes that a cluster's configuration makes."""
    return Lifetimes(**_pick_lifetimes(resolved), retention_seconds=retention_s)


def build_lifetimes_spec(resolved: ResolvedConfig) -> LifetimesSpec:
    """Return them as a cluster's object has them; its retention is left open."""
    return LifetimesSpec(**_pick_lifetimes(resolved))


def _pick_lifetimes(resolved: ResolvedConfig) -> dict[str, Any]:
    return {
        "idle_timeout_seconds": resolved.idle_timeout_s,
        "no_client_timeout_seconds": resolved.no_client_timeout_s,
        "max_lifetime_seconds": resolved.max_lifetime_s,
        "drain_timeout_seconds": resolved.drain_timeout_s,
        "adaptive_period_seconds": resolved.adaptive_period_s,
        "scheduler_start_timeout_seconds": resolved.scheduler_start_timeout_s,
        "worker_start_timeout_seconds": resolved.worker_start_timeout_s,
        "image_pull_timeout_seconds": resolved.extra["image_pull_timeout"],
        "worker_start_failure_limit": resolved.worker_start_failure_limit,
    }


def _shared(extra: Mapping[str, Any]) -> dict[str, Any]:
    secrets = extra["image_pull_secrets"]
    return {
        "image": extra["image"],
        "image_pull_policy": extra["image_pull_policy"],
        "image_pull_secrets": tuple(
            secret["name"] if isinstance(secret, Mapping) else str(secret)
            for secret in secrets
        ),
    }


def _build_template(
    extra: Mapping[str, Any], role: str, container: str
) -> dict[str, Any]:
    """Return the peer's four settings of extra fields as one layer."""
    metadata = {
        kind: dict(extra[f"{role}_extra_pod_{kind}"])
        for kind in ("labels", "annotations")
        if extra[f"{role}_extra_pod_{kind}"]
    }
    template: dict[str, Any] = {"metadata": metadata} if metadata else {}
    fields = extra[f"{role}_extra_container_config"]
    spec = {"containers": [{"name": container, **fields}]} if fields else {}
    try:
        spec = lay(spec, extra[f"{role}_extra_pod_config"], "spec")
    except InvalidRequest as error:
        text = f"KubeClusterConfig.{role}_extra_pod_config: {error}"
        raise ConfigError([text]) from error
    return {**template, **({"spec": spec} if spec else {})}
