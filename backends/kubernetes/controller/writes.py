"""Guarded writes: only while this process leads, and no more at once than is good."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import StaleWrite
from backends.kubernetes.api.lease import Lease
from backends.kubernetes.api.resources import Resource
from backends.kubernetes.controller.limiter import Limiter

# The API server itself tries such a create several times before it gives up.
_CONFLICTS: Final = 4
_CONFLICT_S: Final = (0.02, 0.2)


class LeadLost(Exception):
    """Another may lead by now: nothing is written until this process leads again."""


class Writes:
    """Writes of a leader; each is checked against the lease as it goes out.

    Parameters
    ----------
    client, lease, limiter
        Of this process.

    Raises
    ------
    LeadLost
        From every method.
    KubeError
        From every method.
    """

    def __init__(self, client: KubeClient, lease: Lease, limiter: Limiter) -> None:
        self._client = client
        self._lease = lease
        self._limiter = limiter

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> bytes:
        """Create an object in the namespace that it names.

        A create names no version, so a conflict is one over the count of a quota,
        which others change at the same time; it is tried again.
        """
        for _ in range(_CONFLICTS):
            with suppress(StaleWrite):
                return await self._create(resource, manifest)
            await asyncio.sleep(random.uniform(*_CONFLICT_S))  # noqa: S311 - not a secret
        return await self._create(resource, manifest)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        uid: str,
        resource_version: str | None = None,
    ) -> bytes | None:
        """Delete this very object; ``None`` if it is gone."""
        async with self._limiter.slot():
            self._guard()
            return await self._client.delete(
                resource,
                name,
                namespace=namespace,
                uid=uid,
                resource_version=resource_version,
            )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str,
        subresource: str = "",
    ) -> bytes:
        """Change an object by a merge patch."""
        async with self._limiter.slot():
            self._guard()
            return await self._client.patch(
                resource, name, patch, namespace=namespace, subresource=subresource
            )

    async def _create(self, resource: Resource, manifest: Mapping[str, Any]) -> bytes:
        place = manifest["metadata"]["namespace"]
        async with self._limiter.slot():
            self._guard()
            return await self._client.create(resource, manifest, namespace=place)

    def _guard(self) -> None:
        # Asked last of all, right before the request: this process may have slept.
        if not self._lease.is_held:
            raise LeadLost
