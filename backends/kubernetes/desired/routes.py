"""Route objects of the ``ingressroute`` mode, for a platform's own Traefik."""

from typing import Final

from backends.kubernetes.desired.blueprint import Blueprint, Manifest, RouteSettings
from backends.kubernetes.desired.labels import anchor_ref, build_metadata
from backends.kubernetes.desired.middlewares import KINDS, find_name
from backends.kubernetes.names import (
    DASHBOARD_PORT,
    SCHEDULER_PORT,
    TRAEFIK_API_VERSION,
    Component,
    format_anchor_name,
)
from gateway.domain.errors import InvariantError
from gateway.domain.names import format_sni

# Traefik else ranks by the length of the rule, and a catch-all might come before.
_PRIORITY: Final = 100


def build_http_route(blueprint: Blueprint) -> Manifest:
    """Build the route to the dashboard: ``<prefix>/clusters/<name>/``."""
    settings, cluster = _settings(blueprint), blueprint.cluster
    path = f"{settings.prefix}/clusters/{cluster.name}"
    platform = [
        {"name": name, **({"namespace": namespace} if namespace else {})}
        for name, namespace in settings.middlewares
    ]
    ours = [{"name": find_name(blueprint.settings, ref)} for ref in KINDS]
    rule: Manifest = {
        "kind": "Rule",
        "match": f"Path(`{path}`) || PathPrefix(`{path}/`)",
        "priority": _PRIORITY,
        "services": [_service(blueprint, DASHBOARD_PORT)],
        "middlewares": [*platform, *ours],
    }
    return {
        **_base(blueprint, "IngressRoute"),
        "spec": {"entryPoints": [settings.web_entry_point], "routes": [rule]},
    }


def build_tcp_route(blueprint: Blueprint) -> Manifest:
    """Build the route to the scheduler, told apart by the TLS server name.

    The scheduler ends TLS itself: the proxy only passes it through.
    """
    settings = _settings(blueprint)
    rule = {
        "match": f"HostSNI(`{format_sni(blueprint.cluster.name)}`)",
        "priority": _PRIORITY,
        "services": [_service(blueprint, SCHEDULER_PORT)],
    }
    return {
        **_base(blueprint, "IngressRouteTCP"),
        "spec": {
            "entryPoints": [settings.tcp_entry_point],
            "routes": [rule],
            "tls": {"passthrough": True},
        },
    }


def _base(blueprint: Blueprint, kind: str) -> Manifest:
    metadata = build_metadata(
        blueprint,
        format_anchor_name(blueprint.cluster.name),
        Component.SCHEDULER,
        owner=anchor_ref(blueprint),
    )
    return {"apiVersion": TRAEFIK_API_VERSION, "kind": kind, "metadata": metadata}


def _service(blueprint: Blueprint, port: int) -> Manifest:
    return {"name": format_anchor_name(blueprint.cluster.name), "port": port}


def _settings(blueprint: Blueprint) -> RouteSettings:
    if blueprint.settings.routes is None:
        raise InvariantError("this controller makes no route objects")
    return blueprint.settings.routes
