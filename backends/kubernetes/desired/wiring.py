"""What binds a pod to its cluster and to nothing else: variables, files, arguments.

No layer may take any of it away; `backends.kubernetes.desired.seal` refuses one
that does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from backends.kubernetes.crd.lifetimes import resolve_lifetimes
from backends.kubernetes.crd.quantities import parse_quantity
from backends.kubernetes.desired.blueprint import Blueprint, Manifest
from backends.kubernetes.names import (
    DASHBOARD_PORT,
    SCHEDULER_CONTAINER,
    SCHEDULER_PORT,
    WORKER_CONTAINER,
    format_credentials_name,
    format_host,
    format_plugin_name,
)
from gateway.domain.errors import InvalidRequest

CREDENTIALS_VOLUME: Final = "dask-credentials"
CREDENTIALS_PATH: Final = "/etc/dask-credentials"
PLUGIN_VOLUME: Final = "daskfleet"
PLUGIN_PATH: Final = "/etc/daskfleet"
PLUGIN_FILE: Final = "scheduler_plugin.py"
API_CA_FILE: Final = "api-ca.crt"

# Keys of the mirrored Secret. A pod sees those of its role, under the names
# that dask-gateway has: dask.crt and dask.pem.
CA_KEY: Final = "ca.crt"
SCHEDULER_CERT_KEY: Final = "scheduler.crt"
SCHEDULER_KEY_KEY: Final = "scheduler.pem"
WORKER_CERT_KEY: Final = "worker.crt"
WORKER_KEY_KEY: Final = "worker.pem"
TOKEN_KEY: Final = "api-token"  # noqa: S105 - the name of a file

_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__"


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the Dask container of one role must have, whatever else it has."""

    container: str
    env: Mapping[str, str]
    mounts: Mapping[str, Manifest]
    volumes: Mapping[str, Manifest]


def wire_scheduler(blueprint: Blueprint) -> Wiring:
    """Return what a scheduler must have."""
    cluster, settings = blueprint.cluster, blueprint.settings
    lifetimes = resolve_lifetimes(cluster.spec, settings.lifetimes)
    env = {
        **_tls_variables("SCHEDULER"),
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_GATEWAY_CLUSTER_NAME": cluster.name,
        "DASK_GATEWAY_API_URL": settings.api_url,
        "DASK_GATEWAY_API_TOKEN": f"{CREDENTIALS_PATH}/{TOKEN_KEY}",
        "DASKFLEET_ADAPTIVE_PERIOD": f"{lifetimes.adaptive_period_seconds:g}",
        "DASKFLEET_DRAIN_TIMEOUT": f"{lifetimes.drain_timeout_seconds:g}",
    }
    if settings.api_ca is not None:
        env["DASK_GATEWAY_API_CA_FILE"] = f"{PLUGIN_PATH}/{API_CA_FILE}"
    keys = {
        CA_KEY: "ca.crt",
        SCHEDULER_CERT_KEY: "dask.crt",
        SCHEDULER_KEY_KEY: "dask.pem",
        TOKEN_KEY: TOKEN_KEY,
    }
    plugin = {
        "name": PLUGIN_VOLUME,
        "configMap": {"name": format_plugin_name(plugin_content(blueprint))},
    }
    return Wiring(
        SCHEDULER_CONTAINER,
        env,
        {
            **_credentials_mount(),
            PLUGIN_PATH: _mount(PLUGIN_VOLUME, PLUGIN_PATH),
        },
        {**_credentials_volume(blueprint, keys), PLUGIN_VOLUME: plugin},
    )


def wire_worker(blueprint: Blueprint) -> Wiring:
    """Return what a worker must have; no token and no address of the API is."""
    keys = {CA_KEY: "ca.crt", WORKER_CERT_KEY: "dask.crt", WORKER_KEY_KEY: "dask.pem"}
    return Wiring(
        WORKER_CONTAINER,
        _tls_variables("WORKER"),
        _credentials_mount(),
        _credentials_volume(blueprint, keys),
    )


def build_scheduler_arguments() -> list[str]:
    """Return our arguments of a scheduler.

    Notes
    -----
    ``/health`` and the dashboard are plain HTTP also where Dask speaks TLS:
    they have certificates of their own, by another setting.
    """
    return [
        *("--protocol", "tls"),
        *("--port", str(SCHEDULER_PORT)),
        *("--dashboard-address", f":{DASHBOARD_PORT}"),
        *("--preload", f"{PLUGIN_PATH}/{PLUGIN_FILE}"),
    ]


def build_worker_arguments(
    blueprint: Blueprint, name: str, resources: Mapping[str, Any], path: str
) -> list[str]:
    """Return our arguments of worker ``name``.

    Parameters
    ----------
    resources
        Of its container: memory and threads follow the limits.
    path
        Where they stand, for errors.

    Raises
    ------
    InvalidRequest
        If an amount is none.
    """
    cluster, settings = blueprint.cluster, blueprint.settings
    lifetimes = resolve_lifetimes(cluster.spec, settings.lifetimes)
    host = format_host(cluster.name, cluster.spec.target_namespace)
    cores = _limit(resources, "cpu", path)
    threads = cluster.spec.worker.threads or settings.worker.threads
    memory = _limit(resources, "memory", path)
    return [
        # Listens and connects by TLS alone, as its scheduler's address says.
        f"tls://{host}:{SCHEDULER_PORT}",
        *("--name", name),
        *("--nthreads", str(threads or max(1, int(cores)))),
        # 0 turns Dask's own limit off: there is none.
        *("--memory-limit", str(int(memory))),
        *_death_timeout(lifetimes.worker_start_timeout_seconds),
    ]


def plugin_content(blueprint: Blueprint) -> str:
    """Return what the plugin's ConfigMap is named after."""
    settings = blueprint.settings
    return f"{settings.plugin}\0{settings.api_ca or ''}"


def _death_timeout(seconds: float) -> tuple[str, ...]:
    # One that cannot reach its scheduler ends, is seen to end, and tells why.
    return ("--death-timeout", f"{seconds:g}") if seconds > 0 else ()


def _tls_variables(role: str) -> dict[str, str]:
    # In the environment, not in a file: an image may set DASK_ROOT_CONFIG.
    return {
        f"{_TLS}CA_FILE": f"{CREDENTIALS_PATH}/ca.crt",
        f"{_TLS}{role}__CERT": f"{CREDENTIALS_PATH}/dask.crt",
        f"{_TLS}{role}__KEY": f"{CREDENTIALS_PATH}/dask.pem",
    }


def _credentials_mount() -> dict[str, Manifest]:
    return {CREDENTIALS_PATH: _mount(CREDENTIALS_VOLUME, CREDENTIALS_PATH)}


def _mount(volume: str, path: str) -> Manifest:
    # Secrets and ConfigMaps are mounted read-only in any case.
    return {"name": volume, "mountPath": path}


def _credentials_volume(
    blueprint: Blueprint, keys: Mapping[str, str]
) -> dict[str, Manifest]:
    name = format_credentials_name(
        blueprint.cluster.uid, blueprint.credentials_generation
    )
    items = [{"key": key, "path": path} for key, path in keys.items()]
    secret = {"secretName": name, "items": items}
    return {CREDENTIALS_VOLUME: {"name": CREDENTIALS_VOLUME, "secret": secret}}


def _limit(resources: Mapping[str, Any], kind: str, path: str) -> Decimal:
    try:
        return parse_quantity(resources.get("limits", {}).get(kind, 0))
    except ValueError as error:
        raise InvalidRequest(f"{path}.resources.limits.{kind}", str(error)) from error
