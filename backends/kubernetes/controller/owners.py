"""The chart's objects that own all we make, one in each namespace or one for all."""

from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import Call, NoNamespace, NotFound
from backends.kubernetes.api.resources import CLUSTER_ROLES, CONFIG_MAPS
from backends.kubernetes.controller.settings import AnchorOwner
from backends.kubernetes.desired.blueprint import OwnerRef
from gateway.ports import Clock

# One that was made anew has another uid, and what the old one owns goes with it.
_FRESH: Final = timedelta(seconds=60)


class _Metadata(Struct):
    uid: str


class _Object(Struct):
    metadata: _Metadata


_DECODER: Final = msgspec.json.Decoder(_Object)


class Owners:
    """Looks owners up, at most once a minute per namespace."""

    def __init__(self, client: KubeClient, wanted: AnchorOwner, clock: Clock) -> None:
        self._client = client
        self._wanted = wanted
        self._clock = clock
        self._known: dict[str, tuple[datetime, OwnerRef]] = {}

    async def find(self, namespace: str) -> OwnerRef:
        """Return the owner of what is made in ``namespace``.

        Raises
        ------
        NoNamespace
            If there is none: the chart was not told of the namespace.
        KubeError
            From the API server.
        """
        now = self._clock.now()
        known = self._known.get(namespace)
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        owner = await self._read(namespace)
        self._known[namespace] = now, owner
        return owner

    async def _read(self, namespace: str) -> OwnerRef:
        name = self._wanted.name
        if self._wanted.is_cluster_scoped:
            kind, version = "ClusterRole", "rbac.authorization.k8s.io/v1"
            resource, place = CLUSTER_ROLES, None
        else:
            kind, version = "ConfigMap", "v1"
            resource, place = CONFIG_MAPS, namespace
        try:
            raw = await self._client.get(resource, name, namespace=place)
        except NotFound as error:
            text = (
                f"{kind} {name} is missing, which the chart makes in each namespace "
                "that it is told of"
            )
            call = Call("get", resource.plural, place, name)
            raise NoNamespace(call, text, status=error.status) from error
        return OwnerRef(version, kind, name, _DECODER.decode(raw).metadata.uid)
