"""Members as they are made, and patches as they are loaded, for customisation."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backends.kubernetes.customise.patches import LoadSettings, parse_patches
from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.policy import DEFAULT_RULES
from backends.kubernetes.customise.values import (
    Context,
    Contract,
    Customised,
    Member,
    Patch,
    Policy,
    Refused,
    Source,
    TargetComponent,
)
from backends.kubernetes.desired.wiring import (
    CREDENTIALS_PATH,
    CREDENTIALS_VOLUME,
    PLUGIN_PATH,
    PLUGIN_VOLUME,
)
from backends.kubernetes.names import SCHEDULER_CONTAINER, WORKER_CONTAINER
from tests.support.golden import GOLDEN

ADMIN = Source("config.py")
TENANT = Source("DaskCluster c1", is_tenant=True)
OPEN = Policy(is_enabled=True, rules=DEFAULT_RULES)

_FILES = {
    TargetComponent.SCHEDULER: "scheduler",
    TargetComponent.WORKER: "worker",
    TargetComponent.CREDENTIALS: "credentials",
    TargetComponent.PLUGIN: "plugin",
    TargetComponent.SERVICE: "anchor",
    TargetComponent.INGRESS: "route-http",
    TargetComponent.INGRESS_TCP: "route-tcp",
}
_CONTRACTS = {
    TargetComponent.SCHEDULER: Contract(
        SCHEDULER_CONTAINER,
        (CREDENTIALS_VOLUME, PLUGIN_VOLUME),
        (CREDENTIALS_PATH, PLUGIN_PATH),
    ),
    TargetComponent.WORKER: Contract(
        WORKER_CONTAINER, (CREDENTIALS_VOLUME,), (CREDENTIALS_PATH,)
    ),
}
_NETWORK_POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "dask-c1", "namespace": "team-a"},
    "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]},
}
_MIDDLEWARE = {
    "apiVersion": "traefik.io/v1alpha1",
    "kind": "Middleware",
    "metadata": {"name": "daskfleet-dashboard-login-0", "namespace": "team-a"},
    "spec": {"forwardAuth": {"address": "http://api"}},
}
_OTHERS = {
    TargetComponent.NETWORK_POLICY: _NETWORK_POLICY,
    TargetComponent.MIDDLEWARE: _MIDDLEWARE,
}


def a_member(component: str = "worker") -> Member:
    """Return a member whose manifest is the reviewed one."""
    found = TargetComponent(component)
    manifest = _OTHERS.get(found, {})
    if found in _FILES:
        file = GOLDEN / f"kubernetes/objects/{_FILES[found]}.json"
        manifest = json.loads(file.read_text())
    return Member(found, manifest, _CONTRACTS.get(found))


def every_member() -> list[Member]:
    return [a_member(component) for component in TargetComponent]


def a_context(**changes: Any) -> Context:
    return replace(Context("c1", "team-a", "alice", ("staff",)), **changes)


def patches_of(
    found: Sequence[dict[str, Any]], source: Source = ADMIN, **settings: Any
) -> list[Patch]:
    """Return patches; those without a name or a target get one."""
    whole = [
        {"name": f"p{number}", "target": {"component": ["worker"]}, **patch}
        for number, patch in enumerate(found)
    ]
    loaded = parse_patches(whole, source, LoadSettings(**settings))
    assert not loaded.problems, [problem.format() for problem in loaded.problems]
    return list(loaded.patches)


def merge(body: Any, **more: Any) -> dict[str, Any]:
    return {"type": "merge", "patch": body, **more}


def strategic(body: Any, **more: Any) -> dict[str, Any]:
    return {"type": "strategic", "patch": body, **more}


def operations(*body: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json", "patch": list(body), **more}


def dask_container(body: Any) -> dict[str, Any]:
    """Return a strategic patch of a worker's Dask container."""
    return strategic({"spec": {"containers": [{"name": WORKER_CONTAINER, **body}]}})


def make(
    *found: dict[str, Any],
    member: Member | None = None,
    tenant: Sequence[dict[str, Any]] = (),
    **context: Any,
) -> Customised:
    """Return a member with an admin's patches and a tenant's."""
    made = attempt(*found, member=member, tenant=tenant, **context)
    assert isinstance(made, Customised), made
    return made


def refuse(
    *found: dict[str, Any],
    member: Member | None = None,
    tenant: Sequence[dict[str, Any]] = (),
    **context: Any,
) -> Refused:
    """Return why such a member is refused."""
    made = attempt(*found, member=member, tenant=tenant, **context)
    assert isinstance(made, Refused), made
    return made


def attempt(
    *found: dict[str, Any],
    member: Member | None = None,
    tenant: Sequence[dict[str, Any]] = (),
    **context: Any,
) -> Customised | Refused:
    """Return what comes of a member, whatever it is."""
    keys = context.get("list_identities", {})
    patches = patches_of(found, list_identities=keys)
    patches += patches_of(tenant, TENANT, list_identities=keys)
    if tenant:
        context = {"policy": OPEN, **context}
    return customise(member or a_member(), patches, a_context(**context))
