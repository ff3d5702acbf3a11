"""Move clusters towards what is wanted: observe, plan, write, execute.

Level-triggered: whatever wakes a key, the whole cluster is looked at. Nothing
that is kept here is needed after a restart.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import uuid4

import structlog

from backends.database.actions import Plan, StartJob
from backends.database.executor import Executor, LeaseLost
from backends.database.launcher import JobRef, JobView
from backends.database.leases import Lease
from backends.database.observe import Memory, Observer
from backends.database.observed import Observed
from backends.database.outage import Outage
from backends.database.plan import plan
from backends.database.records import Snapshot
from backends.database.store import StaleWrite, Store
from gateway.aio.backoff import Backoff
from gateway.aio.queue import KeyedQueue
from gateway.domain.errors import ClusterNotFound, Unavailable
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# A timer further ahead is set again at a later look, so that timers stay few.
_LONGEST_TIMER_S: Final = 600.0
# Someone else wrote at the same moment; their change wakes the key as well.
_STALE_AGAIN_S: Final = 0.05
# A job that was started is looked for, should the launcher's view be late.
_STARTED_AGAIN_S: Final = 1.0
# A plan takes some 8 us for each worker: from so many on it is made in a thread,
# so that the event loop is not held for longer than some milliseconds.
_PLANNED_ASIDE: Final = 500


class Reconciler:
    """Looks at each woken cluster, one look at a time per cluster.

    Parameters
    ----------
    watch
        Called after each look with what was seen of the cluster's jobs;
        ``None`` if this server need not watch it.
    retention_s
        How long an ended cluster is kept.
    """

    def __init__(
        self,
        *,
        store: Store,
        lease: Lease,
        observer: Observer,
        executor: Executor,
        clock: Clock,
        outage: Outage,
        watch: Callable[[str, dict[JobRef, JobView] | None], None],
        backoff: Backoff,
        retention_s: float,
    ) -> None:
        self.queue = KeyedQueue[str]()
        self._store = store
        self._lease = lease
        self._observer = observer
        self._executor = executor
        self._clock = clock
        self._outage = outage
        self._watch = watch
        self._backoff = backoff
        self._retention_ms = round(retention_s * 1000)
        self._memories: dict[str, Memory] = {}
        self._failures: dict[str, int] = {}

    async def work(self) -> None:
        """Take one woken key after the other, for ever."""
        while True:
            name = await self.queue.get()
            try:
                with structlog.contextvars.bound_contextvars(
                    cluster=name, reconcile_id=uuid4().hex[:8]
                ):
                    await self._look(name)
            finally:
                self.queue.done(name)

    async def reconcile(self, name: str) -> float | None:
        """Take one step with a cluster.

        Returns
        -------
        float or None
            Seconds until it is to be looked at again, if time alone calls
            for it; 0 if there is more to do at once.

        Raises
        ------
        StaleWrite
            If the cluster was written by someone else meanwhile.
        LeaseLost
            If another server may look after this one's clusters by now.
        """
        if not self._lease.is_valid:
            raise LeaseLost(f"no lease to look after {name}")
        snapshot = await self._store.load(name)
        if snapshot is None or not await self._lease.claim(snapshot):
            if not self._lease.is_valid:
                # It ran out just now. Nobody else may want the cluster, which still
                # bears this server's name, so that nobody would wake its key again.
                raise LeaseLost(f"no lease to look after {name}")
            self._forget(name)
            return None
        memory = self._memories.setdefault(name, Memory())
        observed = await self._observer.look_at(snapshot, memory)
        step = await self._plan(snapshot, observed)
        if step.change is not None:
            record = await self._store.commit(snapshot, step.change)
            snapshot = replace(snapshot, cluster=record)
            log.debug("change written", phase=str(record.phase), version=record.version)
        known = _count(memory)
        failures = await self._executor.execute(snapshot, step.actions, memory)
        if failures:
            raise failures[0]
        self._keep_watch(snapshot, observed)
        if step.change is not None or _count(memory) != known:
            return 0.0
        delay_s = self._find_delay(step)
        if snapshot.cluster.phase.is_terminal and (delay_s or 0) > _LONGEST_TIMER_S:
            return None  # what has expired is looked for all at once
        return delay_s

    async def _plan(self, snapshot: Snapshot, observed: Observed) -> Plan:
        work = partial(
            plan, snapshot, observed, self._now_ms(), retention_ms=self._retention_ms
        )
        if max(len(snapshot.workers), snapshot.cluster.replicas) < _PLANNED_ASIDE:
            return work()
        return await asyncio.to_thread(work)

    async def _look(self, name: str) -> None:
        try:
            delay_s = await self.reconcile(name)
        except (StaleWrite, ClusterNotFound):
            self.queue.wake_after(name, _STALE_AGAIN_S)
        except Unavailable as error:
            self._outage.note(error)
            self._retry(name)
        except LeaseLost:
            self._retry(name)
        except Exception:
            failures = self._retry(name)
            log.exception("reconcile failed", failures=failures)
        else:
            self._failures.pop(name, None)
            if delay_s is not None:
                self.queue.wake_after(name, min(delay_s, _LONGEST_TIMER_S))

    def _retry(self, name: str) -> int:
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        self.queue.wake_after(name, self._backoff.delay_s(failures))
        return failures

    def _forget(self, name: str) -> None:
        self._memories.pop(name, None)
        self._failures.pop(name, None)
        self._watch(name, None)

    def _keep_watch(self, snapshot: Snapshot, observed: Observed) -> None:
        name = snapshot.cluster.name
        if snapshot.cluster.phase.is_terminal:
            self._forget(name)
        else:
            refs = snapshot.job_refs()
            self._watch(name, {ref: observed.view(ref) for ref in refs})

    def _find_delay(self, step: Plan) -> float | None:
        delays = []
        if step.look_again_ms is not None:
            delays.append(max(0.0, (step.look_again_ms - self._now_ms()) / 1000))
        if any(isinstance(action, StartJob) for action in step.actions):
            delays.append(_STARTED_AGAIN_S)
        return min(delays, default=None)

    def _now_ms(self) -> int:
        return round(self._clock.now().timestamp() * 1000)


def _count(memory: Memory) -> tuple[int, int]:
    return len(memory.refused), len(memory.stopped)
