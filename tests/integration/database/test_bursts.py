"""Many clusters at once, half of them cancelled while they start."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from backends.database.launcher import Role
from gateway.domain.cluster import PublicStatus
from tests.support.database import (
    ALICE,
    FakeBackend,
    FakeScheduler,
    make_backend,
    running,
)
from tests.support.eventually import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EVERY = list(PublicStatus)
# Of the loop's own thread, so that a loaded machine does not count. One turn of the
# loop may hold many callbacks; one that scans all clusters would pass this by far.
LONGEST_TURN_S = 0.25
_TICK_S = 0.002


@dataclass
class Turns:
    """The most processor time that one turn of the loop took."""

    longest_s: float = 0.0


@asynccontextmanager
async def measuring() -> AsyncIterator[Turns]:
    turns = Turns()

    async def watch() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.thread_time()
            turns.longest_s = max(turns.longest_s, now - before)
            before = now

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        try:
            yield turns
        finally:
            task.cancel()


class Crowd:
    """The schedulers of the clusters that are kept; each reports in its turn."""

    def __init__(self, backend: FakeBackend, names: list[str]) -> None:
        self._backend = backend
        self._schedulers = [FakeScheduler(backend.launcher.platform, n) for n in names]

    async def step(self) -> Counter[PublicStatus]:
        """Let each report once; return how many clusters have which status."""
        for first in range(0, len(self._schedulers), 20):
            async with asyncio.TaskGroup() as group:
                for scheduler in self._schedulers[first : first + 20]:
                    group.create_task(scheduler.step(self._backend))
        found = await self._backend.list_clusters(None, EVERY)
        return Counter(cluster.status for cluster in found)


@pytest.mark.parametrize("many", [60])
async def test_a_burst_of_clusters_starts_and_half_of_it_is_cancelled_half_way(
    sqlite_url, many
):
    # SQLite writes one after the other, and a loaded machine takes its time for each.
    backend = make_backend(sqlite_url, observe_period=0.5, db_timeout=120)
    platform = backend.launcher.platform
    with capture_logs() as logs:
        async with running(backend):
            async with measuring() as turns:
                async with asyncio.TaskGroup() as group:
                    asked = [
                        group.create_task(backend.start_cluster(ALICE, {}))
                        for _ in range(many)
                    ]
                names = [task.result() for task in asked]
                crowd = Crowd(backend, names[1::2])
                await eventually(lambda: len(platform.alive()) > many // 4, within=90)
                async with asyncio.TaskGroup() as group:
                    for name in names[::2]:
                        group.create_task(backend.stop_cluster(name))
                    for name in names[1::2]:
                        group.create_task(backend.scale_cluster(name, 2))

                async def has_converged() -> bool:
                    found = await crowd.step()
                    want = {"STOPPED": many // 2, "RUNNING": many // 2}
                    assert {str(status): n for status, n in found.items()} == want
                    return len(platform.alive(role=Role.WORKER)) == many

                await eventually(has_converged, within=180, every=0.2)
            starts = Counter(job.starts for job in platform.jobs.values())

    assert len(set(names)) == many
    assert starts.keys() == {1}
    assert len(platform.alive(role=Role.SCHEDULER)) == many // 2
    assert max(platform.most_alive.values()) <= 2
    assert [line for line in logs if line["log_level"] in {"warning", "error"}] == []
    assert turns.longest_s < LONGEST_TURN_S
