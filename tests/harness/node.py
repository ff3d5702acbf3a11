"""A whole Kubernetes of one node, with a real kubelet, in a world.

Nothing of it is imitated: pods run, are probed, killed for memory and evicted.
As a program it starts the node and runs a command beside it::

    tests/harness/world.sh python -m tests.harness.node COMMAND...
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.harness.accounts import create_service_account
from tests.harness.binary import ProgramMissing, find_kube
from tests.harness.containers import RUN, SOCKET, Containers, mount_memory
from tests.harness.control_plane import SERVICE_RANGE, ControlPlane, Settings
from tests.harness.possible import is_world
from tests.harness.service import Service, answers

ADDRESS = "10.89.0.1"
NAME = "node1"
POD_RANGE = "10.88.0.0/16"
_API_PORT = 6443
# The kubelet would write these of the machine itself: it is shown files instead.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
}
_FORWARDING = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": ADDRESS,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "clusterDNS": [ADDRESS],
    "clusterDomain": "cluster.local",
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    # Keeps tests of restarts short.
    "crashLoopBackOff": {"maxContainerRestartPeriod": "3s"},
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {
        "memory.available": "50Mi",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
    },
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "localStorageCapacityIsolation": True,
    # Evicts for a full volume within 15 s instead of 70.
    "volumeStatsAggPeriod": "5s",
    "makeIPTablesUtilChains": False,
    # A silent node is found out sooner, see `_CONTROLLER_FLAGS`.
    "nodeLeaseDurationSeconds": 20,
    "nodeStatusUpdateFrequency": "5s",
    "shutdownGracePeriod": "0s",
    "syncFrequency": "10s",
}
_PROXY = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "bindAddress": ADDRESS,
    "clusterCIDR": POD_RANGE,
    "conntrack": {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    },
    "hostnameOverride": NAME,
    "mode": "iptables",
}
# A lease is renewed every 5 s; four that fail in a row are a node's silence.
_CONTROLLER_FLAGS = ("--node-monitor-grace-period=24s", "--node-monitor-period=2s")
_DNS = """
cluster.local:53 {{
    bind {address}
    errors
    kubernetes {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
.:53 {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class Node:
    """All services of a one-node Kubernetes; one per world.

    Parameters
    ----------
    folder
        Of logs and of files that other processes read.
    settings
        Changes to those of `ControlPlane`, such as ``apiserver_flags``.

    Attributes
    ----------
    control_plane
        etcd, API server and controllers.
    containers
        The container runtime.
    scheduler, kubelet, proxy, dns
        The other services.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.control_plane = ControlPlane(
            Settings(
                folder=folder,
                address=ADDRESS,
                port=_API_PORT,
                is_node_wanted=True,
                **{"controller_flags": _CONTROLLER_FLAGS, **settings},
            )
        )
        self.containers = Containers(folder)
        self.scheduler = self._make_scheduler()
        self.kubelet = self._make_kubelet()
        self.proxy = self._make_proxy()
        self.dns = self._make_dns()

    @property
    def services(self) -> Mapping[str, Service]:
        """All of them by name, in the order of their start."""
        plane = self.control_plane
        ordered = (
            *(plane.etcd, self.containers.service, plane.apiserver, plane.controllers),
            *(self.scheduler, self.kubelet, self.proxy, self.dns),
        )
        return {service.name: service for service in ordered}

    @property
    def is_ready(self) -> bool:
        """Whether the node takes pods."""
        found = self.control_plane.client().find(f"/api/v1/nodes/{NAME}")
        conditions = found["status"].get("conditions", ()) if found else ()
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    def start(self) -> Self:
        """Start everything and wait until pods and services work."""
        if not is_world():
            raise ProgramMissing("a node runs in a world only: tests/harness/world.sh")
        plane = self.control_plane
        RUN.mkdir(exist_ok=True)
        plane.etcd.launch()
        self.containers.launch()
        plane.etcd.wait_ready()
        plane.apiserver.launch()
        self.containers.wait_ready()
        plane.apiserver.wait_ready()
        self._prepare_kernel()
        self._prepare_names()
        for service in (plane.controllers, self.scheduler, self.proxy, self.dns):
            service.launch()
        self.kubelet.launch()
        for service in self.services.values():
            service.wait_ready()
        create_service_account(plane.client(), "default", "default")
        return self

    def stop(self) -> None:
        """End all of it at once; pods end with the world."""
        for service in reversed(self.services.values()):
            service.kill()
        self.control_plane.stop()

    def _prepare_kernel(self) -> None:
        folder = RUN / "kernel"
        folder.mkdir()
        mount_memory(folder)
        for setting, value in _KERNEL_SETTINGS.items():
            file = folder / setting.replace("/", "_")
            file.write_text(f"{value}\n")
            _run("mount", "--bind", str(file), f"/proc/sys/{setting}")
        _run("sysctl", "-q", "-w", *_FORWARDING)
        _run("ip", "route", "add", SERVICE_RANGE, "dev", "world0")
        Path("/etc/kubernetes").mkdir(exist_ok=True)

    def _prepare_names(self) -> None:
        (RUN / "resolv.conf").write_text("")
        resolver = Path("/etc/resolv.conf")
        resolver.unlink(missing_ok=True)  # on many machines a link out of the world
        resolver.write_text(
            f"nameserver {ADDRESS}\n"
            "search svc.cluster.local cluster.local\n"
            "options timeout:1\n"
        )

    def _make_scheduler(self) -> Service:
        kubeconfig = self.control_plane.write_part_kubeconfig("kube-scheduler")
        return self._part(
            "kube-scheduler",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'scheduler-pki'}",
            health="https://127.0.0.1:10259/healthz",
        )

    def _make_kubelet(self) -> Service:
        config = _KUBELET | {
            "podLogsDir": str(self.folder / "pods"),
            "resolvConf": str(RUN / "resolv.conf"),
        }
        kubeconfig = self.control_plane.write_part_kubeconfig("kubelet")
        return Service(
            "kubelet",
            [
                *(find_kube(), "kubelet"),
                f"--config={_write(self.folder / 'kubelet.json', config)}",
                f"--kubeconfig={kubeconfig}",
                "--root-dir=/run/kubelet",
                f"--hostname-override={NAME}",
                f"--node-ip={ADDRESS}",
                f"--cert-dir={self.folder / 'kubelet-pki'}",
            ],
            log=self.folder / "kubelet.log",
            is_ready=lambda: (
                answers("http://127.0.0.1:10248/healthz") and self.is_ready
            ),
        )

    def _make_proxy(self) -> Service:
        kubeconfig = self.control_plane.write_part_kubeconfig("kube-proxy")
        config = _PROXY | {"clientConnection": {"kubeconfig": str(kubeconfig)}}
        return self._part(
            "kube-proxy",
            f"--config={_write(self.folder / 'kube-proxy.json', config)}",
            # The first Service, as a pod dials it.
            health="https://10.96.0.1/version",
        )

    def _make_dns(self) -> Service:
        kubeconfig = self.control_plane.write_part_kubeconfig("coredns")
        file = self.folder / "Corefile"
        file.write_text(_DNS.format(address=ADDRESS, kubeconfig=kubeconfig))
        return self._part(
            "coredns", "-conf", str(file), health="https://kubernetes.default/version"
        )

    def _part(self, name: str, *flags: str, health: str) -> Service:
        return Service(
            name,
            [find_kube(), name, *flags],
            log=self.folder / f"{name}.log",
            is_ready=lambda: answers(health, is_verified=False),
        )


def _write(path: Path, config: object) -> Path:
    path.write_text(json.dumps(config))
    return path


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def main(command: Sequence[str]) -> int:
    """Start a node, run ``command`` with KUBECONFIG set, and return its status."""
    folder = Path(tempfile.mkdtemp(prefix="node-", dir="/run"))
    node = Node(folder)
    try:
        plane = node.start().control_plane
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig", plane.token)
        # kubectl stands beside the interpreter.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"KUBECONFIG": str(kubeconfig), "PATH": path}
        return subprocess.run(
            command, env=os.environ | environment, check=False
        ).returncode
    finally:
        node.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
