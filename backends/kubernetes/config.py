"""What an operator configures of Kubernetes, with the peer's names."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from traitlets import Bool, Dict, Enum, Integer, List, Unicode, default
from traitlets import validate as validates
from traitlets.config import Config

import gateway
from backends.kubernetes.api.lease import LeaseTimes
from backends.kubernetes.controller.settings import (
    AnchorOwner,
    ControllerSettings,
    Pace,
)
from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.desired.blueprint import (
    SCHEDULER_COMMAND,
    WORKER_COMMAND,
    PodSettings,
    RouteSettings,
    Settings,
)
from backends.kubernetes.desired.templates import lay
from backends.kubernetes.names import LABEL_NAME, MANAGED_BY
from gateway.config.cluster import ClusterConfig
from gateway.config.section import Section
from gateway.config.traits import Address, Cores, LogLevel, MemoryLimit, Seconds
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import ConfigError, InvalidRequest

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_INSTANCE: Final = "DASK_GATEWAY_INSTANCE"
_PLUGIN: Final = "scheduler_plugin.py"

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


class KubeSettings(Section):
    """Settings that API server and controller share on Kubernetes."""

    gateway_instance = Unicode(
        help=f"""
        Name of this gateway, in the labels of all its objects. Two gateways in one
        namespace need different ones.

        By default the environment variable `{_INSTANCE}`.
        """,
    ).tag(config=True)

    common_labels = Dict(
        help="""
        Labels of all objects, but for those that the gateway needs itself.

        By default `app.kubernetes.io/name`.
        """,
    ).tag(config=True)

    common_annotations = Dict(help="Annotations of all objects.").tag(config=True)

    crd_version = Unicode(
        "v1alpha1", help="Version of `DaskCluster`; there is one."
    ).tag(config=True)

    label_selector = Unicode(
        help="Has no effect: objects are found by `gateway_instance`.",
    ).tag(config=True)

    kubeconfig = Unicode(
        help="""
        File that says where the API server is, outside of Kubernetes.

        By default the pod's service account, else `KUBECONFIG` or `~/.kube/config`.
        """,
    ).tag(config=True)

    kube_context = Unicode(
        help="""
        Context of the kubeconfig.

        By default its current one.
        """
    ).tag(config=True)

    anchor_name = Unicode(
        "daskfleet-anchor",
        help="""
        Name of the chart's ConfigMap in each namespace, which owns all objects there.
        """,
    ).tag(config=True)

    @default("gateway_instance")
    def _default_gateway_instance(self) -> str:
        return os.environ.get(_INSTANCE, "")

    @default("common_labels")
    def _default_common_labels(self) -> dict[str, str]:
        return {LABEL_NAME: MANAGED_BY}


class KubeController(KubeSettings):
    """The controller, which makes pods of clusters."""

    address = Address(
        ":8000",
        help="`[host]:port` of `/healthz`, `/readyz` and `/metrics`.",
    ).tag(config=True)

    relay_address = Address(
        ":8001",
        help="""
        `[host]:port` from which the API server reads live logs. Not for users.
        """,
    ).tag(config=True)

    relay_token_file = Unicode(
        help="""
        File with the token that the API server shows there; without one there are no
        live logs.
        """,
    ).tag(config=True)

    api_url = Unicode(
        help="""
        URL at which schedulers reach the API; ends in `/api`. Required.
        """,
    ).tag(config=True)

    api_ca_file = Unicode(
        help="""
        Certificates (PEM) that schedulers trust for `api_url`.

        By default those of the image.
        """,
    ).tag(config=True)

    namespaces = List(
        Unicode(),
        help="""
        Namespaces in which clusters may have their pods. The controller needs its
        Role in each of them. Empty is every namespace.

        By default the controller's own alone.
        """,
    ).tag(config=True)

    anchor_is_cluster_scoped = Bool(
        default_value=False,
        help="""
        Have a ClusterRole without rules own all objects, instead of a ConfigMap in
        each namespace.
        """,
    ).tag(config=True)

    proxy_tcp_address = Address(
        "",
        help="""
        `host:port` at which the proxy passes connections to schedulers. A cluster
        is running once its own scheduler has answered there. Empty takes a scheduler
        that has called the gateway for reachable.
        """,
    ).tag(config=True)

    routes = Enum(
        ["http", "ingressroute"],
        default_value="http",
        help="""
        How the proxy learns of clusters: from the API server, or from IngressRoute
        objects that the controller makes for a Traefik of the platform's.
        """,
    ).tag(config=True)

    proxy_prefix = Unicode(help="What every public path starts with.").tag(config=True)

    proxy_web_entrypoint = Unicode(
        "web", help="Traefik's entry point for HTTP, with `ingressroute`."
    ).tag(config=True)

    proxy_tcp_entrypoint = Unicode(
        "tcp", help="Traefik's entry point for schedulers, with `ingressroute`."
    ).tag(config=True)

    proxy_web_middlewares: Any = List(
        Dict(),
        help="Middlewares of dashboards: `{'name': ..., 'namespace': ...}`.",
    ).tag(config=True)

    run_as_user = Integer(
        1000,
        allow_none=True,
        help="""
        User of all processes in pods; `None` where the platform chooses one, as
        OpenShift does.
        """,
    ).tag(config=True)

    parallelism = Integer(
        20, min=1, help="Clusters that are looked after at once."
    ).tag(config=True)

    backoff_base_delay = Seconds(
        0.1, help="Seconds until what failed is first tried again; doubled each time."
    ).tag(config=True)

    backoff_max_delay = Seconds(
        60, help="Longest time in seconds until what failed is tried again."
    ).tag(config=True)

    resync_period = Seconds(
        600, help="Seconds after which all clusters are looked at without any change."
    ).tag(config=True)

    k8s_api_rate_limit = Integer(
        0,
        min=0,
        help="""
        Most writes per second; 0 is no limit. The API server itself says when it has
        too much to do, and is obeyed.
        """,
    ).tag(config=True)

    k8s_api_rate_limit_burst = Integer(
        0, min=0, help="Has no effect: writes are spread evenly."
    ).tag(config=True)

    completed_cluster_max_age = Seconds(
        86400, help="Seconds for which an ended cluster is kept."
    ).tag(config=True)

    completed_cluster_cleanup_period = Seconds(
        600, help="Has no effect: clusters are removed when their time has come."
    ).tag(config=True)

    lease_name = Unicode(
        help="""
        Lease by which one of several controllers leads.

        By default `<gateway_instance>-controller`.
        """
    ).tag(config=True)

    lease_duration = Seconds(
        15, help="Seconds of silence after which another controller takes over."
    ).tag(config=True)

    log_level = LogLevel(
        "INFO",
        help="Least level of the log: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
    ).tag(config=True)

    log_style = Enum(
        ["auto", "console", "json"],
        default_value="auto",
        help="How the log is written; see `DaskGateway.log_style`.",
    ).tag(config=True)

    @default("namespaces")
    def _default_namespaces(self) -> list[str]:
        return [read_own_namespace()]

    @default("lease_name")
    def _default_lease_name(self) -> str:
        return f"{self.gateway_instance or MANAGED_BY}-controller"

    @validates("proxy_prefix")
    def _check_prefix(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        prefix = str(proposal["value"]).strip("/")
        return f"/{prefix}" if prefix else ""

    def resolve(self) -> ControllerSettings:
        """Return all settings as plain values.

        Raises
        ------
        ConfigError
            With all that is wrong.
        """
        problems = list(self.find_problems())
        if problems:
            raise ConfigError(problems)
        seconds = self.lease_duration
        return ControllerSettings(
            objects=self._resolve_objects(),
            namespaces=tuple(self.namespaces),
            anchor_owner=AnchorOwner(
                self.anchor_name, is_cluster_scoped=self.anchor_is_cluster_scoped
            ),
            lease_name=self.lease_name,
            # In the proportions of Kubernetes' own: 15, 10 and 2.
            lease_times=LeaseTimes(seconds, seconds * 2 / 3, seconds * 2 / 15),
            pace=Pace(
                parallelism=self.parallelism,
                base_delay_s=self.backoff_base_delay,
                max_delay_s=self.backoff_max_delay,
                resync_s=self.resync_period,
                rate_limit=float(self.k8s_api_rate_limit),
            ),
            address=self.address,
            relay_address=self.relay_address,
            relay_token_file=self.relay_token_file,
            proof_address=self.proxy_tcp_address,
        )

    def find_problems(self) -> Sequence[str]:
        """Return what is wrong with the settings as a whole, one line each."""
        problems = []
        if not self.gateway_instance:
            problems.append(
                f"KubeController.gateway_instance: must be set, or {_INSTANCE}"
            )
        if not self.api_url:
            problems.append("KubeController.api_url: must be set")
        if not 0 < self.backoff_base_delay <= self.backoff_max_delay:
            problems.append(
                "KubeController.backoff_base_delay: must be > 0 and at most "
                "backoff_max_delay"
            )
        if self.api_ca_file and not Path(self.api_ca_file).is_file():
            problems.append("KubeController.api_ca_file: no such file")
        return problems

    def _resolve_objects(self) -> Settings:
        cluster = KubeClusterConfig(parent=self)
        resolved = cluster.resolve()
        is_routed = self.routes == "ingressroute"
        return Settings(
            instance=self.gateway_instance,
            api_url=self.api_url,
            plugin=read_plugin(),
            scheduler=build_scheduler_settings(resolved),
            worker=build_worker_settings(resolved),
            api_ca=Path(self.api_ca_file).read_text() if self.api_ca_file else None,
            labels=dict(self.common_labels),
            annotations=dict(self.common_annotations),
            run_as_user=self.run_as_user,
            lifetimes=build_lifetimes(resolved, self.completed_cluster_max_age),
            routes=self._resolve_routes() if is_routed else None,
        )

    def _resolve_routes(self) -> RouteSettings:
        return RouteSettings(
            web_entry_point=self.proxy_web_entrypoint,
            tcp_entry_point=self.proxy_tcp_entrypoint,
            prefix=self.proxy_prefix,
            middlewares=tuple(
                (entry["name"], entry.get("namespace", ""))
                for entry in self.proxy_web_middlewares
            ),
        )


def make_controller(config: Config) -> KubeController:
    """Return the controller's settings over ``config``."""
    return KubeController(config=config)


def read_own_namespace() -> str:
    """Return the namespace of this pod, ``default`` outside of Kubernetes."""
    try:
        return _NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def read_plugin() -> str:
    """Return the text of the scheduler's plugin."""
    return (Path(gateway.__file__).parent / _PLUGIN).read_text("utf-8")


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
        template=_build_template(extra, "scheduler", "dask-scheduler"),
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
        template=_build_template(extra, "worker", "dask-worker"),
        **_shared(extra),
    )


def build_lifetimes(resolved: ResolvedConfig, retention_s: float) -> Lifetimes:
    """Return the lifetimes that a cluster's configuration makes."""
    return Lifetimes(
        idle_timeout_seconds=resolved.idle_timeout_s,
        no_client_timeout_seconds=resolved.no_client_timeout_s,
        max_lifetime_seconds=resolved.max_lifetime_s,
        drain_timeout_seconds=resolved.drain_timeout_s,
        adaptive_period_seconds=resolved.adaptive_period_s,
        scheduler_start_timeout_seconds=resolved.scheduler_start_timeout_s,
        worker_start_timeout_seconds=resolved.worker_start_timeout_s,
        image_pull_timeout_seconds=resolved.extra["image_pull_timeout"],
        worker_start_failure_limit=resolved.worker_start_failure_limit,
        retention_seconds=retention_s,
    )


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
