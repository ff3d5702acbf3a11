"""One round of one cluster: observe, plan, store, execute, tell."""

from collections.abc import Iterable

from backends.kubernetes.api.lease import Lease
from backends.kubernetes.controller.executor import Executor
from backends.kubernetes.controller.observer import Observer, Round
from backends.kubernetes.controller.orphans import Orphans
from backends.kubernetes.controller.proof import RouteProver
from backends.kubernetes.controller.statuses import Statuses
from backends.kubernetes.controller.telling import EventTeller
from backends.kubernetes.planning.actions import (
    AskWhy,
    DeleteCluster,
    KeepLogTail,
    LookUp,
    Plan,
)
from backends.kubernetes.planning.plan import plan
from gateway.ports import Clock

# What a live look has found is in the cache only when the watch has it.
_LOOK_AGAIN_S = 1.0


class Reconciler:
    """Moves one cluster at a time towards what its spec asks for; holds no state."""

    def __init__(
        self,
        *,
        observer: Observer,
        executor: Executor,
        statuses: Statuses,
        orphans: Orphans,
        prover: RouteProver,
        teller: EventTeller,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._observer = observer
        self._executor = executor
        self._statuses = statuses
        self._orphans = orphans
        self._prover = prover
        self._teller = teller
        self._lease = lease
        self._clock = clock

    async def reconcile(self, name: str) -> float | None:
        """Take the next step for the cluster; return seconds until the one after."""
        orphan_s = await self._orphans.reconcile(name)
        seen = self._observer.observe(name, epoch=self._lease.epoch)
        if seen is None:
            return orphan_s
        seen = await self._prover.prove(seen)
        step = plan(seen.desired, seen.observed, self._clock.now())
        return _earliest((orphan_s, await self._carry_out(seen, step)))

    async def _carry_out(self, seen: Round, step: Plan) -> float | None:
        if step.stores_first:
            await self._statuses.store(seen, step.status)
            self._teller.tell(seen.cluster, step.events)
        if not await self._executor.execute(seen, step.actions):
            return 0.0
        if step.stores_first or DeleteCluster(seen.cluster.uid) in step.actions:
            return _seconds(step)
        settle_s = await self._statuses.write(seen, step.status, self._clock.now())
        self._teller.tell(seen.cluster, step.events)
        return _earliest((_seconds(step), settle_s, _answers(seen, step)))


def _answers(seen: Round, step: Plan) -> float | None:
    """Return when to plan with what the plan wanted to know."""
    if any(isinstance(action, KeepLogTail | AskWhy) for action in step.actions):
        return 0.0
    if any(isinstance(action, LookUp) for action in step.actions):
        return 0.0 if seen.memory.absent else _LOOK_AGAIN_S
    return None


def _seconds(step: Plan) -> float | None:
    return None if step.requeue_after is None else step.requeue_after.total_seconds()


def _earliest(delays: Iterable[float | None]) -> float | None:
    return min((delay for delay in delays if delay is not None), default=None)
