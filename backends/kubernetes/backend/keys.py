"""Clusters' tokens and clients' keys, from master Secrets, kept in memory.

A Secret is only ever created, never changed, so what was read once stays true.
"""

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import AlreadyExists, KubeError, NotFound
from backends.kubernetes.api.resources import SECRETS
from backends.kubernetes.backend.calls import PatientCalls
from backends.kubernetes.backend.refusals import translate_refusal
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.credentials import (
    build_master,
    ensure_credentials,
    find_credentials,
)
from gateway.aio.limits import ExpiringMap
from gateway.credentials import CLIENT_LIFETIME, RENEW_BEFORE, renew_client
from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import BackendError, Unavailable
from gateway.ports import Clock

# 32 bytes each, and some 2 KB.
_MOST_TOKENS: Final = 50_000
_MOST_CLIENTS: Final = 10_000
# A wrong token makes us look again at most so often: its Secret may be a new one.
_LOOK_AGAIN_S: Final = 10.0
# Of clusters that get their keys at once; each takes some milliseconds of a thread.
_MAKERS: Final = 16

# Each client's leaf is replaced so long after it was made.
PERIOD: Final = CLIENT_LIFETIME - RENEW_BEFORE


class _Secret(Struct):
    entries: dict[str, str] | None = field(default=None, name="data")


_DECODER: Final = msgspec.json.Decoder(_Secret)
_CERTIFICATE: Final = "client.crt"
_KEY: Final = "client.pem"


class Keys:
    """Hands out what a cluster's scheduler and client show and are shown.

    Parameters
    ----------
    client, calls
        Make and bound the calls.
    instance
        Of this gateway, for labels.
    clock
        Says when a leaf is to be renewed.
    """

    def __init__(
        self, client: KubeClient, calls: PatientCalls, *, instance: str, clock: Clock
    ) -> None:
        self._client = client
        self._calls = calls
        self._instance = instance
        self._clock = clock
        self._tokens: ExpiringMap[str, bytes] = ExpiringMap(_MOST_TOKENS)
        self._clients: ExpiringMap[tuple[str, int], KeyPair] = ExpiringMap(
            _MOST_CLIENTS
        )
        self._looked: ExpiringMap[str, bool] = ExpiringMap(
            _MOST_TOKENS, _LOOK_AGAIN_S, monotonic=clock.monotonic
        )
        self._makers = asyncio.Semaphore(_MAKERS)

    async def ensure(self, cluster: DaskCluster) -> None:
        """Make a cluster's credentials, unless it has some.

        Raises
        ------
        InvalidRequest, Rejected, Unavailable, BackendError
            As the API server refused.
        """
        async with self._makers:
            try:
                made = await self._calls.make(
                    lambda: ensure_credentials(
                        self._client,
                        cluster,
                        instance=self._instance,
                        clock=self._clock,
                    )
                )
            except KubeError as error:
                raise translate_refusal(error) from error
        self._keep(cluster, made)

    async def check_token(self, cluster: DaskCluster | None, token: str) -> bool:
        """Return whether ``token`` is the cluster's, in constant time."""
        shown = hash_token(token)
        if cluster is None:
            return False
        known = self._tokens.get(cluster.uid)
        if known is not None and hmac.compare_digest(shown, known):
            return True
        if self._looked.get(cluster.uid):
            return False
        self._looked.put(cluster.uid, value=True)
        found = await self._find(cluster)
        return found is not None and hmac.compare_digest(shown, hash_token(found.token))

    async def find_client(self, cluster: DaskCluster) -> KeyPair | None:
        """Return what a client needs to connect; ``None`` before it was made.

        A leaf is renewed in time: its name is worked out from the cluster's age,
        so that all replicas hand out the same one.
        """
        number = self._count_renewals(cluster)
        kept = self._clients.get((cluster.uid, number))
        if kept is not None:
            return kept
        master = await self._find(cluster)
        if master is None or number == 0:
            return None if master is None else master.client
        try:
            client = await self._calls.make(
                lambda: self._ensure_client(cluster, master, number)
            )
        except KubeError as error:
            raise translate_refusal(error) from error
        self._clients.put((cluster.uid, number), client)
        return client

    async def _find(self, cluster: DaskCluster) -> Credentials | None:
        try:
            found = await self._calls.make(
                lambda: find_credentials(self._client, cluster)
            )
        except KubeError as error:
            raise translate_refusal(error) from error
        if found is not None:
            self._keep(cluster, found)
        return found

    def _keep(self, cluster: DaskCluster, credentials: Credentials) -> None:
        self._tokens.put(cluster.uid, hash_token(credentials.token))
        self._clients.put((cluster.uid, 0), credentials.client)

    def _count_renewals(self, cluster: DaskCluster) -> int:
        now = self._clock.now()
        age = now - (cluster.created or now)
        return max(age, timedelta(0)) // PERIOD

    async def _ensure_client(
        self, cluster: DaskCluster, master: Credentials, number: int
    ) -> KeyPair:
        name = f"dask-client-{cluster.uid}-{number}"
        found = await self._find_client(name)
        if found is not None:
            return found
        async with self._makers:
            fresh = await asyncio.to_thread(
                renew_client, master, cluster.name, self._clock.now()
            )
        manifest = self._build_client(cluster, fresh, name)
        try:
            await self._client.create(
                SECRETS, manifest, namespace=self._client.namespace
            )
        except AlreadyExists:
            found = await self._find_client(name)
            if found is None:
                raise Unavailable(f"Secret {name} is being replaced") from None
            return found
        return fresh.client

    async def _find_client(self, name: str) -> KeyPair | None:
        place = self._client.namespace
        try:
            raw = await self._client.get(SECRETS, name, namespace=place)
        except NotFound:
            return None
        entries = _DECODER.decode(raw).entries or {}
        try:
            return KeyPair(_decode(entries[_CERTIFICATE]), _decode(entries[_KEY]))
        except KeyError as error:
            text = f"Secret {name} has no {error}; delete it, and it is made again"
            raise BackendError(text) from error

    def _build_client(
        self, cluster: DaskCluster, fresh: Credentials, name: str
    ) -> dict[str, Any]:
        manifest = build_master(cluster, fresh, instance=self._instance)
        manifest["metadata"]["name"] = name
        manifest["immutable"] = True
        # Of all that the master holds only what clients get.
        manifest["data"] = {
            _CERTIFICATE: _encode(fresh.client.certificate),
            _KEY: _encode(fresh.client.key),
        }
        return manifest


def hash_token(token: str) -> bytes:
    """Return what is kept of a token: 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _encode(text: str) -> str:
    return b64encode(text.encode()).decode()


def _decode(text: str) -> str:
    return b64decode(text).decode()
