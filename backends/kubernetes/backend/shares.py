"""Promise users and groups what they hold, so that no cap is ever passed.

Each capped share has a Lease, which nobody holds: its annotation lists what was
promised, and each promise is a compare-and-set. A gateway that dies with a promise
on its lips leaves one that is taken back a minute later; nobody waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec
import structlog
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    StaleWrite,
)
from backends.kubernetes.api.resources import LEASES
from backends.kubernetes.backend.calls import PatientCalls
from backends.kubernetes.backend.refusals import translate_refusal
from backends.kubernetes.backend.sharing import (
    Holdings,
    Known,
    Promise,
    format_promises,
    is_member,
    keep_promises,
    list_doubtful,
    parse_promises,
    sum_share,
)
from backends.kubernetes.backend.store import ClusterStore
from backends.kubernetes.desired.blueprint import OwnerRef
from backends.kubernetes.names import (
    GROUP,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    hash_text,
)
from gateway.aio.backoff import Backoff
from gateway.aio.limits import ExpiringMap
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.domain.policy import Share
from gateway.ports import Clock

log = structlog.get_logger(__name__)

T = TypeVar("T")

# Returns what is to be promised, and an outcome; raises to refuse.
Decide = Callable[[Holdings], tuple[Promise, T]]

FindOwner = Callable[[], Awaitable[OwnerRef | None]]

_ANNOTATION_SHARE: Final = f"{GROUP}/share"
_ANNOTATION_HELD: Final = f"{GROUP}/held"
_TRIES: Final = 50
_BACKOFF: Final = (0.01, 0.3)
_MOST_LOCKS: Final = 4096


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


class _Lease(Struct, frozen=True):
    metadata: _Metadata

    @property
    def text(self) -> str:
        return self.metadata.annotations.get(_ANNOTATION_HELD, "{}")


_DECODER: Final = msgspec.json.Decoder(_Lease)


class Shares:
    """Keeps what each capped share was promised.

    Parameters
    ----------
    client, calls
        Make and bound the calls.
    store
        Knows the clusters.
    instance
        Of this gateway: part of the Leases' names.
    find_owner
        Returns the owner reference of new Leases, ``None`` if there is none.
    """

    def __init__(
        self,
        client: KubeClient,
        calls: PatientCalls,
        store: ClusterStore,
        *,
        instance: str,
        find_owner: FindOwner,
        clock: Clock,
    ) -> None:
        self._client = client
        self._calls = calls
        self._store = store
        self._instance = instance
        self._find_owner = find_owner
        self._clock = clock
        self._locks: ExpiringMap[str, asyncio.Lock] = ExpiringMap(_MOST_LOCKS)

    def list_holdings(self, shares: Sequence[Share], *, without: str = "") -> Holdings:
        """Return what the known clusters of each share hold; makes no call."""
        return tuple(
            (share, sum_share(share, self._know(share, {}), without=without))
            for share in shares
        )

    async def promise(self, name: str, shares: Sequence[Share], decide: Decide[T]) -> T:
        """Promise what ``decide`` makes of what others hold, and return its outcome.

        Parameters
        ----------
        name
            Of the cluster.
        shares
            All capped ones of its owner, sorted; none costs no call.

        Raises
        ------
        LimitExceeded
            Or whatever ``decide`` raises; then nothing stays promised.
        Unavailable
            If the API server does not answer in time.
        """
        if not shares:
            return decide(())[1]
        async with self._locking(shares):
            backoff = Backoff(*_BACKOFF)
            for _ in range(_TRIES):
                try:
                    return await self._try(name, shares, decide)
                except StaleWrite:
                    await backoff.sleep()
                except KubeError as error:
                    raise translate_refusal(error) from error
        raise Unavailable("other gateways change the same shares too often")

    async def withdraw(self, name: str, shares: Sequence[Share]) -> None:
        """Take a promise back, of a cluster that was refused after all.

        Where that fails it is taken back later, like that of one who died.
        """
        async with self._locking(shares):
            try:
                for share in shares:
                    lease, known = await self._look(share)
                    await self._take_back(name, lease, known)
            except (KubeError, Unavailable) as error:
                log.warning("promise not withdrawn", cluster=name, error=str(error))

    async def _try(self, name: str, shares: Sequence[Share], decide: Decide[T]) -> T:
        looks = [(share, *await self._look(share)) for share in shares]
        holdings = tuple(
            (share, sum_share(share, known, without=name)) for share, _, known in looks
        )
        try:
            promise, outcome = decide(holdings)
        except Exception:
            for _, lease, known in looks:
                await self._take_back(name, lease, known)
            raise
        for _, lease, known in looks:
            await self._write(lease, {**known.promises, name: promise})
        return outcome

    async def _take_back(self, name: str, lease: _Lease, known: Known) -> None:
        # Of an earlier try that came half-way; not what a living cluster holds.
        if name in known.promises and name not in known.clusters:
            left = {k: v for k, v in known.promises.items() if k != name}
            await self._write(lease, left)

    async def _look(self, share: Share) -> tuple[_Lease, Known]:
        """Return a share's Lease, and what is known; promises of the dead left out."""
        lease = await self._read(share)
        known = self._know(share, parse_promises(lease.text))
        doubtful = list_doubtful(known, self._now_ms())
        absent = [name for name in doubtful if await self._is_absent(name)]
        kept = keep_promises(self._know(share, known.promises), absent)
        return lease, self._know(share, kept)

    def _know(self, share: Share, promises: Mapping[str, Promise]) -> Known:
        kind, _, name = share.key.partition(":")
        found = self._store.list_of(name if kind == "user" else None)
        clusters = {c.name: c for c in found if is_member(share, c)}
        return Known(clusters, dict(promises))

    async def _is_absent(self, name: str) -> bool:
        try:
            await self._store.read(name)
        except ClusterNotFound:
            return True
        return False

    async def _read(self, share: Share) -> _Lease:
        name, place = self._format_name(share), self._client.namespace
        try:
            return await self._get(name)
        except NotFound:
            pass
        owner = await self._find_owner()
        manifest = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {
                    LABEL_MANAGED_BY: MANAGED_BY,
                    LABEL_INSTANCE: self._instance,
                },
                # For people: the name tells nothing.
                "annotations": {_ANNOTATION_SHARE: share.key},
                "ownerReferences": [] if owner is None else [owner.format()],
            },
        }
        try:
            raw = await self._calls.make(
                lambda: self._client.create(LEASES, manifest, namespace=place)
            )
        except AlreadyExists:
            return await self._get(name)
        return _DECODER.decode(raw)

    async def _get(self, name: str) -> _Lease:
        place = self._client.namespace
        raw = await self._calls.make(
            lambda: self._client.get(LEASES, name, namespace=place)
        )
        return _DECODER.decode(raw)

    async def _write(self, lease: _Lease, promises: Mapping[str, Promise]) -> None:
        text = format_promises(promises)
        if text == lease.text:
            return
        metadata = lease.metadata
        patch: dict[str, Any] = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {_ANNOTATION_HELD: text},
            }
        }
        place = self._client.namespace
        await self._calls.make(
            lambda: self._client.patch(LEASES, metadata.name, patch, namespace=place)
        )

    @asynccontextmanager
    async def _locking(self, shares: Sequence[Share]) -> AsyncIterator[None]:
        """Let requests of one process wait for each other, rather than collide."""
        async with AsyncExitStack() as stack:
            for share in shares:
                lock = self._locks.get(share.key) or asyncio.Lock()
                self._locks.put(share.key, lock)
                await stack.enter_async_context(lock)
            yield

    def _format_name(self, share: Share) -> str:
        return f"{self._instance}-share-{hash_text(share.key)}"

    def _now_ms(self) -> int:
        return round(self._clock.now().timestamp() * 1000)
