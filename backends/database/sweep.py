"""Stop jobs that no row of the database asks for.

There are none unless a process died at the wrong moment, a server acted after
its lease was over, or rows were lost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import Final

import structlog

from backends.database.engine import Database
from backends.database.launcher import JobRef, JobState, Launcher
from backends.database.lookups import list_jobs

log = structlog.get_logger(__name__)

_CALL_S: Final = 60.0
# A job is asked to end again and again until nothing of it is left.
_AGAIN_S: Final = 1.0


class Sweeper:
    """Compares what the launcher has with what the database wants."""

    def __init__(
        self, database: Database, launcher: Launcher, *, period_s: float = 60.0
    ) -> None:
        self._database = database
        self._launcher = launcher
        self._period_s = period_s

    async def sweep(self) -> bool:
        """Stop all strays; return whether none is left.

        Jobs are listed before rows are read: a row is always written before
        its job is started, by whichever server, so a job without one is a
        stray for sure.
        """
        async with asyncio.timeout(_CALL_S):
            found = await self._launcher.find_jobs()
        if not found:
            return True
        wanted, known = await list_jobs(self._database)
        strays: dict[str, list[JobRef]] = defaultdict(list)
        for ref in found:
            if ref not in wanted:
                strays[ref.cluster].append(ref)
        is_clean = True
        for name, refs in strays.items():
            if name in known:
                # Kept until the cluster is deleted, for its logs.
                is_clean &= await self._stop(await self._find_alive(refs))
            elif await self._stop(refs):
                async with asyncio.timeout(_CALL_S):
                    await self._launcher.forget(name)
                log.warning("orphans removed", cluster=name, jobs=len(refs))
            else:
                is_clean = False
        return is_clean

    async def run(self) -> None:
        """Sweep for ever; what is raised is for the caller to retry."""
        while True:
            is_clean = await self.sweep()
            await asyncio.sleep(self._period_s if is_clean else _AGAIN_S)

    async def _find_alive(self, refs: Collection[JobRef]) -> list[JobRef]:
        async with asyncio.timeout(_CALL_S):
            views = await self._launcher.observe(list(refs))
        alive = (JobState.PENDING, JobState.RUNNING)
        return [ref for ref, view in views.items() if view.state in alive]

    async def _stop(self, refs: Collection[JobRef]) -> bool:
        is_gone = True
        for ref in refs:
            async with asyncio.timeout(_CALL_S):
                is_gone &= await self._launcher.stop(ref)
            log.warning("stray job asked to stop", cluster=ref.cluster, job=ref.name)
        return is_gone
