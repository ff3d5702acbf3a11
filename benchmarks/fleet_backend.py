"""Our local backend over a launcher that starts nothing.

All that is measured (HTTP, store, planner, reconciler, proxy) is the released
code; only processes are left out, as on the peer's side
(`benchmarks.peer_backend`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from backends.database.launcher import JobRef, JobSpec, JobState, JobView, Role
from backends.local.backend import UnsafeLocalBackend
from benchmarks import stalls
from benchmarks.our_side import FILLED

_RUNNING = JobView(JobState.RUNNING, started_ms=1)
_ABSENT = JobView(JobState.ABSENT)


class FleetBackend(UnsafeLocalBackend):
    def make_launcher(self) -> "StandInLauncher":
        filled = Path(self.data_directory) / FILLED
        return StandInLauncher(json.loads(filled.read_text()))

    async def setup(self, app: web.Application) -> None:
        await super().setup(app)
        stalls.install(asyncio.get_running_loop())


class StandInLauncher:
    """Says of each job that it runs, once it was started."""

    # ruff: noqa: ARG002 - the protocol's signatures

    def __init__(self, filled: Sequence[str]):
        self._running = {JobRef(name, Role.SCHEDULER, "scheduler") for name in filled}

    async def setup(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def start(self, spec: JobSpec) -> None:
        self._running.add(spec.ref)

    async def observe(self, refs: Sequence[JobRef]) -> Mapping[JobRef, JobView]:
        running = self._running
        return {ref: _RUNNING if ref in running else _ABSENT for ref in refs}

    async def stop(self, ref: JobRef) -> bool:
        self._running.discard(ref)
        return True

    async def forget(self, cluster: str) -> None:
        pass

    async def read_logs(
        self, ref: JobRef, *, tail: int, follow: bool
    ) -> AsyncIterator[str]:
        return
        yield ""

    async def find_jobs(self) -> Sequence[JobRef]:
        return ()

    async def owns_port(self, ref: JobRef, port: int) -> bool | None:
        return None
