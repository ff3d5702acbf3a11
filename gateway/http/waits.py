"""Calls that are held until something changes, and how they end in time."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from aiohttp import web

from gateway.aio.budget import Budget
from gateway.domain.cluster import Cluster
from gateway.ports import Backend

# How often a held call asks a store that did not answer.
_RETRY_S = 1.0


class HeldCalls:
    """All calls that wait for a change, so that a gateway that stops ends them."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._is_closing = False

    def __len__(self) -> int:
        """Return how many calls are held now."""
        return len(self._scopes)

    @property
    def is_closing(self) -> bool:
        """True once nothing is held any more."""
        return self._is_closing

    async def until_change(
        self, backend: Backend, name: str, version: int, timeout_s: float
    ) -> None:
        """Return when the cluster may have passed ``version``, or it is time."""
        await self._hold(backend.wait_for_change(name, version, timeout_s), timeout_s)

    async def pause(self, budget: Budget) -> None:
        """Return when it is time to ask a store again that did not answer."""
        await self._hold(asyncio.Event().wait(), min(_RETRY_S, budget.remaining_s()))

    def watch(self, scope: asyncio.Timeout) -> None:
        """Let `release` end the block of ``scope``, by its `TimeoutError`."""
        self._scopes.add(scope)
        if self._is_closing:
            scope.reschedule(asyncio.get_running_loop().time())

    def forget(self, scope: asyncio.Timeout) -> None:
        """Say that the block of ``scope`` has ended."""
        self._scopes.discard(scope)

    def release(self) -> None:
        """End all held calls, and hold none from now on."""
        self._is_closing = True
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())

    async def _hold(self, waiting: Awaitable[object], timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s) as scope:
                self.watch(scope)
                try:
                    await waiting
                finally:
                    self.forget(scope)


def format_failure(cluster: Cluster) -> str:
    """Return why ``cluster`` failed, with the last lines of its log.

    Examples
    --------
    >>> from gateway.domain.cluster import PublicStatus
    >>> print(format_failure(Cluster(
    ...     name="c1", owner="alice", status=PublicStatus.FAILED, version=3,
    ...     start_ms=0, reason="StartFailed", message="exit status 3",
    ...     log_tail=("no such module",))))
    Cluster c1 failed: StartFailed: exit status 3
    Last lines of its log:
      no such module
    """
    parts = [f"Cluster {cluster.name} failed", cluster.reason, cluster.message]
    text = ": ".join(part for part in parts if part)
    if cluster.log_tail:
        lines = "\n".join(f"  {line}" for line in cluster.log_tail)
        text += f"\nLast lines of its log:\n{lines}"
    return text


HELD = web.AppKey("held", HeldCalls)
