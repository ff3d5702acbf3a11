"""Create the fixed children of a cluster, and judge whose a taken name is."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import AlreadyExists, KubeError, NotFound
from backends.kubernetes.api.resources import (
    CONFIG_MAPS,
    HTTP_ROUTES,
    MIDDLEWARES,
    PODS,
    SECRETS,
    SERVICES,
    TCP_ROUTES,
    Resource,
)
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.observer import Round
from backends.kubernetes.controller.owners import Owners
from backends.kubernetes.controller.refusals import read_refusal, wait_for_name
from backends.kubernetes.controller.writes import Writes
from backends.kubernetes.credentials import ensure_credentials
from backends.kubernetes.desired.blueprint import Blueprint
from backends.kubernetes.desired.members import make_member
from backends.kubernetes.desired.middlewares import KINDS
from backends.kubernetes.names import (
    ANNOTATION_CLUSTER_UID,
    LABEL_INSTANCE,
    Child,
    format_anchor_name,
    format_scheduler_name,
)
from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.observed.services import parse_service
from backends.kubernetes.planning.inputs import Refusal, RefusalKind
from gateway.ports import Clock

_RESOURCES: Final[Mapping[Child, Resource]] = {
    Child.ANCHOR: SERVICES,
    Child.CREDENTIALS: SECRETS,
    Child.PLUGIN: CONFIG_MAPS,
    Child.SCHEDULER: PODS,
    Child.ROUTE_HTTP: HTTP_ROUTES,
    Child.ROUTE_TCP: TCP_ROUTES,
}
# Immutable, and named after what they hold: who has the name is the object.
_NAMED_BY_CONTENT: Final = frozenset({Child.CREDENTIALS, Child.PLUGIN})


class _Owner(Struct):
    uid: str = ""


class _Metadata(Struct, rename="camel"):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: list[_Owner] = field(default_factory=list)
    deletion_timestamp: str | None = None


class _Object(Struct):
    metadata: _Metadata


_DECODER: Final = msgspec.json.Decoder(_Object)


class Children:
    """Makes children; what it learns goes into caches and the round's memory."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        caches: Caches,
        owners: Owners,
        clock: Clock,
        *,
        shared: set[tuple[str, str]],
    ) -> None:
        self._client = client
        self._writes = writes
        self._caches = caches
        self._owners = owners
        self._clock = clock
        self._shared = shared

    async def create(self, seen: Round, blueprint: Blueprint, child: Child) -> str:
        """Create ``child``, or find that it is there.

        Returns
        -------
        str
            Uid of an anchor, "" of any other child, or where it was refused:
            `ClusterMemory.refusals` says why.
        """
        memory = seen.memory
        try:
            raw = await self._create(seen, blueprint, child)
        except AlreadyExists:
            return await self._judge(seen, blueprint, child)
        except KubeError as error:
            memory.create_failures += 1
            now = self._clock.now()
            memory.refusals[child] = read_refusal(error, now, memory.create_failures)
            return ""
        return self._note(seen, child, raw)

    async def look_up(self, seen: Round, child: Child) -> bool:
        """Read ``child`` live and return whether it is there, and this cluster's."""
        cluster = seen.cluster
        name = _find_name(cluster.name, child)
        place = cluster.spec.target_namespace
        try:
            raw = await self._client.get(_RESOURCES[child], name, namespace=place)
        except NotFound:
            seen.memory.absent.add(child)
            return False
        if not _is_ours(seen, seen.blueprint, child, _DECODER.decode(raw).metadata):
            seen.memory.absent.add(child)
            return False
        self._record(child, raw)
        return True

    async def _create(self, seen: Round, blueprint: Blueprint, child: Child) -> bytes:
        credentials = None
        if child in (Child.ANCHOR, Child.PLUGIN):
            place = seen.cluster.spec.target_namespace
            blueprint = replace(blueprint, owner=await self._owners.find(place))
        if child is Child.CREDENTIALS:
            credentials = await ensure_credentials(
                self._client,
                seen.cluster,
                instance=blueprint.settings.instance,
                clock=self._clock,
            )
            seen.memory.ca = credentials.ca_certificate
        if child is Child.ROUTE_HTTP:
            await self._ensure_middlewares(seen, blueprint)
        manifest = make_member(blueprint, child, credentials)
        return await self._writes.create(_RESOURCES[child], manifest)

    async def _ensure_middlewares(self, seen: Round, blueprint: Blueprint) -> None:
        """Make what routes of the namespace refer to, unless this process has."""
        place = seen.cluster.spec.target_namespace
        shared = replace(blueprint, owner=await self._owners.find(place))
        for ref in KINDS:
            manifest = make_member(shared, ref)
            key = place, manifest["metadata"]["name"]
            if key in self._shared:
                continue
            with suppress(AlreadyExists):
                await self._writes.create(MIDDLEWARES, manifest)
            self._shared.add(key)

    def _note(self, seen: Round, child: Child, raw: bytes) -> str:
        seen.memory.refusals.pop(child, None)
        seen.memory.create_failures = 0
        return self._record(child, raw, made=seen.memory.made)

    def _record(
        self, child: Child, raw: bytes, *, made: set[Child] | None = None
    ) -> str:
        match child:
            case Child.ANCHOR:
                service = parse_service(raw)
                self._caches.record_service(service)
                return service.uid
            case Child.SCHEDULER:
                self._caches.record_pod(parse_pod(raw))
            case _:
                if made is not None:
                    made.add(child)
        return ""

    async def _judge(self, seen: Round, blueprint: Blueprint, child: Child) -> str:
        """Find out whose the object is that has the child's name."""
        memory = seen.memory
        if child in _NAMED_BY_CONTENT:
            memory.refusals.pop(child, None)
            memory.made.add(child)
            return ""
        place = seen.cluster.spec.target_namespace
        name = _find_name(seen.cluster.name, child)
        try:
            raw = await self._client.get(_RESOURCES[child], name, namespace=place)
        except NotFound:
            text = f"{name} is going away"
            kind = RefusalKind.NAME_BUSY
            memory.refusals[child] = wait_for_name(text, kind, self._clock.now())
            return ""
        refusal = self._find_refusal(seen, blueprint, child, raw)
        if refusal is None:
            return self._note(seen, child, raw)
        memory.refusals[child] = refusal
        return ""

    def _find_refusal(
        self, seen: Round, blueprint: Blueprint, child: Child, raw: bytes
    ) -> Refusal | None:
        metadata = _DECODER.decode(raw).metadata
        name = _find_name(seen.cluster.name, child)
        kind, now = _RESOURCES[child].plural, self._clock.now()
        if not _is_ours(seen, blueprint, child, metadata):
            if metadata.labels.get(LABEL_INSTANCE) == blueprint.settings.instance:
                text = f"{kind} {name} of a former cluster is still there"
                return wait_for_name(text, RefusalKind.NAME_BUSY, now)
            text = f"{kind} {name} exists and is not the gateway's; remove or rename it"
            return wait_for_name(text, RefusalKind.NAME_CONFLICT, now)
        if metadata.deletion_timestamp is not None:
            text = f"{kind} {name} is going away"
            return wait_for_name(text, RefusalKind.NAME_BUSY, now)
        return None


def _is_ours(
    seen: Round, blueprint: Blueprint, child: Child, metadata: _Metadata
) -> bool:
    if child is Child.ANCHOR:
        return metadata.annotations.get(ANNOTATION_CLUSTER_UID) == seen.cluster.uid
    owners = {owner.uid for owner in metadata.owner_references}
    return blueprint.anchor_uid in owners


def _find_name(cluster: str, child: Child) -> str:
    if child is Child.SCHEDULER:
        return format_scheduler_name(cluster)
    return format_anchor_name(cluster)
