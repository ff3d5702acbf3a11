"""Scheduler and worker pods: the base, with the layers of configuration and spec.

The base satisfies Pod Security's level ``restricted``, with a read-only root and
no service-account token. Pods never restart: ended is final.
"""

from collections.abc import Mapping
from typing import Any, Final

from backends.kubernetes.desired.blueprint import (
    Blueprint,
    Manifest,
    PodSettings,
)
from backends.kubernetes.desired.labels import (
    anchor_ref,
    build_metadata,
    build_owner_label,
)
from backends.kubernetes.desired.templates import build_template, lay
from backends.kubernetes.desired.wiring import (
    Wiring,
    build_scheduler_arguments,
    build_worker_arguments,
    wire_scheduler,
    wire_worker,
)
from backends.kubernetes.names import (
    DASHBOARD_PORT,
    SCHEDULER_PORT,
    Component,
    format_scheduler_name,
)
from gateway.domain.names import format_worker_name

# Where alone a read-only root lets Dask write its scratch files.
_SCRATCH: Final = "/tmp"  # noqa: S108 - a path in a container of its own

SCHEDULER_TEMPLATE: Final = "spec.scheduler.template"
WORKER_TEMPLATE: Final = "spec.worker.template"


def build_scheduler_base(blueprint: Blueprint) -> Manifest:
    """Build the scheduler's pod without any layer: its identity and its wiring."""
    name = format_scheduler_name(blueprint.cluster.name)
    wiring = wire_scheduler(blueprint)
    pod = _build_base(blueprint, name, Component.SCHEDULER, wiring)
    pod["metadata"]["labels"] |= build_owner_label(blueprint)
    return pod


def build_worker_base(blueprint: Blueprint, ordinal: int) -> Manifest:
    """Build the pod of worker ``ordinal`` without any layer."""
    name = format_worker_name(blueprint.cluster.name, ordinal)
    return _build_base(blueprint, name, Component.WORKER, wire_worker(blueprint))


def build_scheduler(blueprint: Blueprint) -> Manifest:
    """Build the scheduler's pod.

    Raises
    ------
    InvalidRequest
        If a layer does not fit, with its field path.
    """
    spec, settings = blueprint.cluster.spec.scheduler, blueprint.settings.scheduler
    pod = build_scheduler_base(blueprint)
    _dask(pod)["ports"] = [
        {"name": "scheduler", "containerPort": SCHEDULER_PORT},
        {"name": "dashboard", "containerPort": DASHBOARD_PORT},
    ]
    # 2 s: found ready soon; six misses: a busy loop is no reason to be unready.
    _dask(pod)["readinessProbe"] = {
        "httpGet": {"path": "/health", "port": DASHBOARD_PORT},
        "periodSeconds": 2,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
    pod = _lay_layers(pod, settings, spec.template, SCHEDULER_TEMPLATE)
    command = spec.command or settings.command
    _dask(pod).setdefault("args", [*command, *build_scheduler_arguments()])
    return pod


def build_worker(blueprint: Blueprint, ordinal: int) -> Manifest:
    """Build the pod of worker ``ordinal``; raises as `build_scheduler`.

    Lean, because it is sent and stored a thousand times over: what the
    platform would add anyway is left to it.
    """
    spec, settings = blueprint.cluster.spec.worker, blueprint.settings.worker
    pod = build_worker_base(blueprint, ordinal)
    pod = _lay_layers(pod, settings, spec.template, WORKER_TEMPLATE)
    if "args" not in _dask(pod):
        command = spec.command or settings.command
        _dask(pod)["args"] = [*command, *worker_arguments(blueprint, pod, ordinal)]
    return pod


def worker_arguments(blueprint: Blueprint, pod: Manifest, ordinal: int) -> list[str]:
    """Return our arguments of worker ``ordinal``, after the resources of its pod."""
    dask = _dask(pod)
    name = format_worker_name(blueprint.cluster.name, ordinal)
    path = f"{WORKER_TEMPLATE}.spec.containers[{dask['name']}]"
    return build_worker_arguments(blueprint, name, dask.get("resources", {}), path)


def _build_base(
    blueprint: Blueprint, name: str, component: Component, wiring: Wiring
) -> Manifest:
    user = blueprint.settings.run_as_user
    security: Manifest = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if user is not None:
        security["runAsUser"] = user
    scratch = {"name": "tmp", "mountPath": _SCRATCH}
    variables = {**wiring.env, "DASK_TEMPORARY_DIRECTORY": _SCRATCH}
    dask: Manifest = {
        "name": wiring.container,
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [*wiring.mounts.values(), scratch],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": build_metadata(
            blueprint, name, component, owner=anchor_ref(blueprint)
        ),
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": security,
            "containers": [dask],
            "volumes": [
                *wiring.volumes.values(),
                {"name": scratch["name"], "emptyDir": {}},
            ],
        },
    }


def _lay_layers(
    pod: Manifest, settings: PodSettings, template: Mapping[str, Any], path: str
) -> Manifest:
    name = _dask(pod)["name"]
    return lay(lay(pod, build_template(settings, name)), template, path)


def _dask(pod: Manifest) -> Manifest:
    # The base's container comes first, and layers add theirs behind.
    dask: Manifest = pod["spec"]["containers"][0]
    return dask
