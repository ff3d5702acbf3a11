"""Who leads: a Lease, without any trust in the clocks of others.

A follower never compares the Lease's times with a clock of its own: it goes by when
it last *saw* the Lease change. It watches it, so that a release is taken at once.
The leader stops by itself some time after the beginning of its last renewal that
was confirmed; `Lease.is_held` has to be asked before each write.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    StaleWrite,
)
from backends.kubernetes.api.resources import LEASES
from gateway.ports import Clock

log = structlog.get_logger(__name__)

_WATCH_S: Final = 300


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds, as in Kubernetes' own components.

    Parameters
    ----------
    duration_s
        Without a renewal in so long, another may lead.
    renew_s
        So long after its last renewal a leader stops; less than ``duration_s``.
    retry_s
        Between two renewals, and two looks of a follower.
    """

    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


class _Spec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Lease(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _Event(Struct):
    type: str
    object: msgspec.Raw


_DECODER: Final = msgspec.json.Decoder(_Lease)
_EVENT: Final = msgspec.json.Decoder(_Event)


def read_boottime() -> float:
    """Return seconds of a clock that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Our part in one Lease of our namespace.

    Parameters
    ----------
    client
        Makes the calls.
    name
        Of the Lease, in the client's namespace.
    identity
        Of this process; nobody else's, ever.
    clock
        For the times that people read.
    boottime
        For all that is decided.
    """

    def __init__(
        self,
        client: KubeClient,
        name: str,
        identity: str,
        *,
        clock: Clock,
        times: LeaseTimes | None = None,
        boottime: Callable[[], float] = read_boottime,
    ) -> None:
        self.identity = identity
        self._client = client
        self._name = name
        self._clock = clock
        self._times = times or LeaseTimes()
        self._boottime = boottime
        self._lease: _Lease | None = None
        self._seen = 0.0
        self._renewed: float | None = None
        self._epoch = 0
        self._changed = asyncio.Event()
        self._is_troubled = False

    @property
    def is_held(self) -> bool:
        """Whether this process may write now, also if it has just slept."""
        if self._renewed is None:
            return False
        return self._boottime() - self._renewed < self._times.renew_s

    @property
    def epoch(self) -> int:
        """``leaseTransitions`` as of our own last renewal; each new leader has more."""
        return self._epoch

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lead, run ``work`` under it, and return when it is lost.

        ``work`` is cancelled then. If it ends or raises, so does this.
        """
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(), name="lease watch")
            try:
                await self._acquire()
                log.info("leading", lease=self._name, epoch=self.epoch)
                await self._work(work)
            finally:
                watching.cancel()
        log.info("lead lost", lease=self._name)

    async def release(self) -> None:
        """Let another lead at once; only after the last write."""
        lease, self._renewed, held = self._lease, None, self.is_held
        if lease is None or not held:
            return
        with suppress(KubeError, TimeoutError):
            await self._patch(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})
            log.info("lead released", lease=self._name)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(_run(work), name="leader's work")
            try:
                while self.is_held and not working.done():
                    await self._attempt()
                    await asyncio.wait([working], timeout=self._times.retry_s)
            finally:
                working.cancel()

    async def _acquire(self) -> None:
        while not await self._attempt():
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._changed.wait()

    def _rest_s(self) -> float:
        if self._lease is None:
            return self._times.retry_s
        left = self._seen + self._duration_s(self._lease) - self._boottime()
        return min(max(left, 0.05), self._times.retry_s)

    async def _attempt(self) -> bool:
        """Take or renew; True if that was confirmed."""
        # The time counts from before the call.
        sent = self._boottime()
        try:
            # A call that may outlast the deadline could make two leaders.
            async with asyncio.timeout(self._times.renew_s / 2):
                is_ours = await self._take()
        except (KubeError, TimeoutError) as error:
            # Tried every other second; one line tells all of an outage.
            tell = log.debug if self._is_troubled else log.warning
            tell("lease not renewed", lease=self._name, error=str(error))
            self._is_troubled = not isinstance(error, StaleWrite)
            self._lease = None
            return False
        self._is_troubled = False
        if not is_ours:
            return False
        self._renewed = sent
        if self._lease is not None:
            self._epoch = self._lease.spec.lease_transitions or 0
        return True

    async def _take(self) -> bool:
        if self._lease is None and not await self._read():
            return True
        lease = self._lease
        if lease is None:
            return False
        if lease.spec.holder_identity == self.identity:
            await self._patch(lease, {})
            return True
        # Another leads, or did.
        self._renewed = None
        if not self._is_free(lease):
            return False
        transitions = (lease.spec.lease_transitions or 0) + 1
        taken = {"acquireTime": self._now(), "leaseTransitions": transitions}
        await self._patch(lease, taken)
        return True

    async def _read(self) -> bool:
        """Look at the Lease; False if there was none and it is ours now."""
        namespace = self._client.namespace
        try:
            raw = await self._client.get(LEASES, self._name, namespace=namespace)
        except NotFound:
            spec = self._own({"acquireTime": self._now(), "leaseTransitions": 0})
            manifest = {"metadata": {"name": self._name}, "spec": spec}
            with suppress(AlreadyExists):
                raw = await self._client.create(LEASES, manifest, namespace=namespace)
                self._observe(_DECODER.decode(raw))
                return False
            return True
        self._observe(_DECODER.decode(raw))
        return True

    async def _patch(self, lease: _Lease, spec: dict[str, Any]) -> None:
        """Compare and set; `StaleWrite` if somebody was faster."""
        version = {"resourceVersion": lease.metadata.resource_version}
        raw = await self._client.patch(
            LEASES,
            self._name,
            {"metadata": version, "spec": self._own(spec)},
            namespace=self._client.namespace,
        )
        self._observe(_DECODER.decode(raw))

    def _own(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._times.duration_s),
            "renewTime": self._now(),
            **spec,
        }

    def _observe(self, lease: _Lease) -> None:
        known = self._lease
        if known is None or known.metadata != lease.metadata:
            self._lease, self._seen = lease, self._boottime()
            self._changed.set()

    def _is_free(self, lease: _Lease) -> bool:
        if not lease.spec.holder_identity:
            return True
        return self._boottime() - self._seen >= self._duration_s(lease)

    def _duration_s(self, lease: _Lease) -> float:
        return float(lease.spec.lease_duration_seconds or self._times.duration_s)

    def _now(self) -> str:
        # MicroTime: exactly six digits and an offset.
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self._name}",
            "timeoutSeconds": str(_WATCH_S),
        }
        while True:
            try:
                async for line in self._client.stream(
                    LEASES,
                    namespace=self._client.namespace,
                    query=query,
                    silence_s=_WATCH_S,
                ):
                    self._note(_EVENT.decode(line))
            except (KubeError, msgspec.DecodeError):
                # Looks at intervals go on meanwhile.
                log.debug("lease watch broke off", lease=self._name)
            await asyncio.sleep(self._times.retry_s)

    def _note(self, event: _Event) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            self._observe(_DECODER.decode(event.object))
        elif event.type == "DELETED":
            self._lease = None
            self._changed.set()


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()
