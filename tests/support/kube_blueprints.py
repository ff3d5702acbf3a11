"""Blueprints of clusters, for builders."""

from typing import Any

from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.desired.blueprint import (
    SCHEDULER_COMMAND,
    WORKER_COMMAND,
    Blueprint,
    OwnerRef,
    PodSettings,
    RouteSettings,
    Settings,
)
from gateway.domain.credentials import Credentials, KeyPair

UID = "6f1c1c1e-1111-4222-8333-444455556666"
ANCHOR_UID = "77777777-8888-4999-8aaa-bbbbccccdddd"
IMAGE = "daskgateway/dask-gateway:2026.3.0"
OWNER = OwnerRef("v1", "ConfigMap", "daskfleet-anchor", "00000000-1111-4222-8333-44")
ROUTES = RouteSettings(middlewares=(("strip", "dask"),))


def some_settings(**changes: Any) -> Settings:
    plain: dict[str, Any] = {
        "instance": "dask",
        "api_url": "http://api-daskfleet.dask:8000/api",
        "plugin": "print('plugin')\n",
        "scheduler": PodSettings(IMAGE, SCHEDULER_COMMAND),
        "worker": PodSettings(IMAGE, WORKER_COMMAND),
        "routes": ROUTES,
    }
    return Settings(**{**plain, **changes})


def a_blueprint(
    spec: dict[str, Any] | None = None,
    *,
    name: str = "c0123456789abcdef0123",
    anchor_uid: str | None = ANCHOR_UID,
    **settings: Any,
) -> Blueprint:
    plain = {"owner": {"user": "alice"}, "targetNamespace": "team-a"}
    cluster = parse_dask_cluster(
        {
            "metadata": {
                "name": name,
                "namespace": "dask",
                "uid": UID,
                "resourceVersion": "7",
                "generation": 1,
            },
            "spec": {**plain, **(spec or {})},
        }
    )
    return Blueprint(cluster, some_settings(**settings), OWNER, anchor_uid)


def some_credentials() -> Credentials:
    def pair(role: str) -> KeyPair:
        return KeyPair(f"certificate of {role}", f"sesame of {role}")

    return Credentials(
        "certificate of the CA",
        "sesame of the CA",
        pair("client"),
        pair("scheduler"),
        pair("worker"),
        token="sesame",
    )
