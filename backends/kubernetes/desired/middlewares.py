"""Middleware objects of the ``ingressroute`` mode: what a dashboard's visitor passes.

The same as the proxy's own table has, so that a login is asked for and nobody's
credentials reach a dashboard. Named after what they hold and never changed: one set
per namespace and content, owned by the chart's anchor.
"""

from typing import Any, Final

import msgspec

from backends.kubernetes.desired.blueprint import Blueprint, Manifest, Settings
from backends.kubernetes.desired.labels import build_instance_labels
from backends.kubernetes.names import (
    LABEL_COMPONENT,
    TRAEFIK_API_VERSION,
    Component,
    MiddlewareRef,
    hash_text,
)
from backends.routing.middlewares import AUTH_PATH, build_middlewares
from gateway.domain.errors import InvariantError

# In this order: whoever may not see a dashboard learns nothing of it.
KINDS: Final = (
    MiddlewareRef("dashboard-login"),
    MiddlewareRef("dashboard-root"),
    MiddlewareRef("dashboard-strip"),
    MiddlewareRef("dashboard-headers"),
)


def build_middleware(blueprint: Blueprint, ref: MiddlewareRef) -> Manifest:
    """Build one Middleware; it is for all clusters of the namespace."""
    settings = blueprint.settings
    return {
        "apiVersion": TRAEFIK_API_VERSION,
        "kind": "Middleware",
        "metadata": {
            "name": find_name(settings, ref),
            "namespace": blueprint.cluster.spec.target_namespace,
            "labels": {
                **settings.labels,
                **build_instance_labels(settings.instance),
                LABEL_COMPONENT: str(Component.MIDDLEWARE),
            },
            "ownerReferences": [blueprint.owner.format()],
        },
        "spec": _build_spec(settings, ref),
    }


def find_name(settings: Settings, ref: MiddlewareRef) -> str:
    """Return the name of one Middleware: it stands for the content and its gateway.

    Two gateways that share a namespace do not share what one of them may remove.
    """
    content = msgspec.json.encode(_build_spec(settings, ref), order="sorted").decode()
    return f"daskfleet-{ref.kind}-{hash_text(f'{settings.instance}/{content}')}"


def _build_spec(settings: Settings, ref: MiddlewareRef) -> dict[str, Any]:
    routes = settings.routes
    if routes is None:
        raise InvariantError("this controller makes no route objects")
    login_url = (
        routes.login_url or f"{settings.api_url.removesuffix('/api')}{AUTH_PATH}"
    )
    middlewares = build_middlewares(routes.prefix, login_url, tls=False)
    return dict(middlewares[ref.kind])
