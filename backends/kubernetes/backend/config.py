"""What an operator configures of the API server on Kubernetes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from traitlets import List, Unicode, default
from typing_extensions import override

from backends.kubernetes.backend.relay import RelaySettings
from backends.kubernetes.backend.targets import find_pattern_problem
from backends.kubernetes.cluster_config import KubeClusterConfig, read_own_namespace
from backends.kubernetes.config import INSTANCE, KubeController
from backends.kubernetes.proxy_config import KubeProxySettings
from gateway.config.backend import BackendBase
from gateway.config.section import Section
from gateway.config.traits import Seconds


class KubeBackendSettings(KubeProxySettings, BackendBase):
    """Settings of the API server on Kubernetes."""

    companions: ClassVar[tuple[type[Section], ...]] = (KubeController,)

    target_namespaces: Any = List(
        Unicode(),
        help="""
        Namespaces in which clusters may have their pods, whatever options and
        `KubeClusterConfig.namespace` say; `*` stands for anything, as in `team-*`.
        The controller has to serve them too.

        By default the gateway's own alone.
        """,
    ).tag(config=True)

    k8s_api_timeout = Seconds(
        10,
        help="""
        Longest time in seconds that the Kubernetes API server may take for one read
        or write, all tries together; then the request is answered with 503 and may
        be repeated.
        """,
    ).tag(config=True)

    relay_urls: Any = List(
        Unicode(),
        help="""
        URLs of the controller's replicas for live logs and events, such as
        `http://controller:8001`; see `KubeController.relay_address`. They are asked
        in turn.
        """,
    ).tag(config=True)

    relay_token_file = Unicode(
        help="File with the token of `KubeController.relay_token_file`.",
    ).tag(config=True)

    @default("cluster_config_class")
    @override
    def _default_cluster_config_class(self) -> type[KubeClusterConfig]:
        return KubeClusterConfig

    @default("target_namespaces")
    def _default_target_namespaces(self) -> list[str]:
        return [read_own_namespace()]

    @override
    def find_problems(self) -> Sequence[str]:
        problems = list(super().find_problems())
        name = type(self).__name__
        if not self.gateway_instance:
            problems.append(f"{name}.gateway_instance: must be set, or {INSTANCE}")
        if not self.k8s_api_timeout:
            problems.append(f"{name}.k8s_api_timeout: must be > 0")
        if self.relay_urls and not self.relay_token_file:
            problems.append(f"{name}.relay_token_file: must be set with relay_urls")
        if not issubclass(self.cluster_config_class, KubeClusterConfig):
            problems.append(
                f"{name}.cluster_config_class: must be a kind of KubeClusterConfig"
            )
        problems += self.find_proxy_problems()
        pattern = KubeClusterConfig(parent=self).namespace
        if problem := find_pattern_problem(pattern):
            problems.append(f"KubeClusterConfig.namespace: {problem}")
        return problems

    def make_relay_settings(self) -> RelaySettings:
        """Return where the controller is asked for logs and events."""
        return RelaySettings(tuple(self.relay_urls), self.relay_token_file)
