"""What an operator configures of Kubernetes, with the peer's names.

Settings of each cluster stand in `cluster_config`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from traitlets import Bool, Dict, Enum, Integer, List, Unicode, default
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
from backends.kubernetes.desired.blueprint import Settings
from backends.kubernetes.names import LABEL_NAME, MANAGED_BY
from backends.kubernetes.route_config import KubeRouteSettings
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


class KubeController(KubeRouteSettings, KubeSettings):
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
        Role in each of them. Empty is every namespace, which needs a ClusterRole.

        By default the controller's own alone.
        """,
    ).tag(config=True)

    namespace_selector = Unicode(
        help="""
        Labels such as `daskfleet.io/clusters=yes` of the namespaces in which clusters
        may have their pods, instead of `namespaces`; it needs a ClusterRole. Whoever
        may label a namespace decides. What runs in one that has lost its label goes
        on, and nothing new starts there.
        """,
    ).tag(config=True)

    anchor_is_cluster_scoped = Bool(
        default_value=False,
        help="""
        Have a ClusterRole without rules own all objects, instead of a ConfigMap in
        each namespace.

        By default where the chart does not know all namespaces: with an empty
        `namespaces`, or `namespace_selector`.
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
        600,
        help="""
        Seconds after which all clusters are looked at without any change. Route
        objects that somebody has deleted are made again then.
        """,
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

    @default("anchor_is_cluster_scoped")
    def _default_anchor_is_cluster_scoped(self) -> bool:
        return bool(self.namespace_selector) or not self.namespaces

    @default("lease_name")
    def _default_lease_name(self) -> str:
        return f"{self.gateway_instance or MANAGED_BY}-controller"

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
            namespaces=() if self.namespace_selector else tuple(self.namespaces),
            namespace_selector=self.namespace_selector,
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
        problems += self.find_route_problems()
        if self.api_ca_file and not Path(self.api_ca_file).is_file():
            problems.append("KubeController.api_ca_file: no such file")
        return problems

    def _resolve_objects(self) -> Settings:
        cluster = KubeClusterConfig(parent=self)
        resolved = cluster.resolve()
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
            routes=self.resolve_routes(),
        )


def make_controller(config: Config) -> KubeController:
    """Return the controller's settings over ``config``."""
    return KubeController(config=config)


def read_plugin() -> str:
    """Return the text of the scheduler's plugin."""
    return (Path(gateway.__file__).parent / _PLUGIN).read_text("utf-8")
