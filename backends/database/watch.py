"""Look at the jobs of all clusters about each second, and wake those that differ."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from backends.database.launcher import JobRef, JobView, Launcher
from backends.database.observe import OBSERVE_S

# So that the event loop is not held: some milliseconds' worth.
_JOBS_AT_ONCE: Final = 500


class JobWatch:
    """Compares jobs with what the reconciler last saw of them.

    Parameters
    ----------
    wake
        Called with the cluster of a job that looks different now.
    """

    def __init__(
        self, launcher: Launcher, *, wake: Callable[[str], None], period_s: float = 1.0
    ) -> None:
        self._launcher = launcher
        self._wake = wake
        self._period_s = period_s
        self._seen: dict[str, Mapping[JobRef, JobView]] = {}

    def __len__(self) -> int:
        """Return how many clusters are watched."""
        return len(self._seen)

    def keep(self, name: str, views: Mapping[JobRef, JobView] | None) -> None:
        """Watch a cluster from these views on; no longer if ``None``."""
        if views is None:
            self._seen.pop(name, None)
        else:
            self._seen[name] = views

    async def look(self) -> None:
        """Wake each cluster of which a job has changed."""
        watched = [
            (ref, v) for views in self._seen.values() for ref, v in views.items()
        ]
        for batch in _split(watched):
            async with asyncio.timeout(OBSERVE_S):
                now = await self._launcher.observe([ref for ref, _ in batch])
            changed = {
                ref.cluster
                for ref, seen in batch
                if ref in now and _essence(now[ref]) != _essence(seen)
            }
            for name in changed:
                self._wake(name)

    async def poll(self) -> None:
        """Look for ever; what the launcher raises is for the caller to retry."""
        while True:
            await asyncio.sleep(self._period_s)
            await self.look()


def _split(
    watched: list[tuple[JobRef, JobView]],
) -> Iterator[list[tuple[JobRef, JobView]]]:
    rest = iter(watched)
    while batch := list(islice(rest, _JOBS_AT_ONCE)):
        yield batch


def _essence(view: JobView) -> tuple[object, ...]:
    # Processes of a job come and go; that alone calls for no plan.
    return (view.state, view.exit_code, view.started_ms, view.host, view.message)
