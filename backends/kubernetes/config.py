"""What an operator configures of Kubernetes, with the peer's names.

Settings of each cluster stand in `cluster_config`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from traitlets import Bool, Dict, Enum, Integer, List, Unicode, default
from traitlets import validate as validates
from traitlets.config import Config

import gateway
from backends.kubernetes.api.lease import LeaseTimes
from backends.kubernetes.cluster_config import (
    KubeClusterConfig,
    build_lifetimes,
    build_scheduler_settings,
    build_worker_settings,
    read_own_namespace,
)
from backends.kubernetes.controller.settings import (
    AnchorOwner,
    ControllerSettings,
    Pace,
)
from backends.kubernetes.desired.blueprint import RouteSettings, Settings
from backends.kubernetes.names import LABEL_NAME, MANAGED_BY
from backends.routing.settings import is_prefix
from gateway.config.section import Section
from gateway.config.traits import Address, LogLevel, Seconds
from gateway.domain.errors import ConfigError

INSTANCE: Final = "DASK_GATEWAY_INSTANCE"
_PLUGIN: Final = "scheduler_plugin.py"


class KubeSettings(Section):
    """Settings that API server and controller share on Kubernetes."""

    gateway_instance = Unicode(
        help=f"""
        Name of this gateway, in the labels of all its objects. Two gateways in one
        namespace need different ones.

        By default the environment variable `{INSTANCE}`.
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
        return os.environ.get(INSTANCE, "")

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
        help="""
        Middlewares of the platform's for dashboards: `{'name': ..., 'namespace': ...}`.
        They come before the gateway's own, which ask for a login, strip the path and
        keep credentials away.
        """,
    ).tag(config=True)

    proxy_login_url = Unicode(
        help="""
        URL at which Traefik asks whether a visitor may see a dashboard, with
        `ingressroute`: `/api/v1/dashboard-auth` of the API, not by way of Traefik.

        By default it is made of `api_url`.
        """,
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
                f"KubeController.gateway_instance: must be set, or {INSTANCE}"
            )
        if not self.api_url:
            problems.append("KubeController.api_url: must be set")
        if not 0 < self.backoff_base_delay <= self.backoff_max_delay:
            problems.append(
                "KubeController.backoff_base_delay: must be > 0 and at most "
                "backoff_max_delay"
            )
        if not is_prefix(self.proxy_prefix):
            problems.append(
                f"KubeController.proxy_prefix: {self.proxy_prefix!r} is no path of "
                "letters, digits, ., ~, - and _"
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
            login_url=self.proxy_login_url,
        )


def make_controller(config: Config) -> KubeController:
    """Return the controller's settings over ``config``."""
    return KubeController(config=config)


def read_plugin() -> str:
    """Return the text of the scheduler's plugin."""
    return (Path(gateway.__file__).parent / _PLUGIN).read_text("utf-8")
