"""Create and delete worker pods: deletes first, creates in growing batches."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    StaleWrite,
)
from backends.kubernetes.api.resources import PODS
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.observer import Round
from backends.kubernetes.controller.refusals import read_refusal
from backends.kubernetes.controller.writes import Writes
from backends.kubernetes.desired.members import make_member
from backends.kubernetes.names import WorkerRef
from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.planning.actions import CreateWorker, DeletePod
from gateway.ports import Clock

T = TypeVar("T")


class WorkerPods:
    """Writes of worker pods; what it learns goes into caches and memory."""

    def __init__(
        self, client: KubeClient, writes: Writes, caches: Caches, clock: Clock
    ) -> None:
        self._client = client
        self._writes = writes
        self._caches = caches
        self._clock = clock

    async def delete(self, seen: Round, actions: Sequence[DeletePod]) -> None:
        """Delete pods, all at once; one that has changed since is spared.

        Raises
        ------
        StaleWrite
            Once all were asked for, if one was spared: it may have begun to run,
            and then is one of those that the plan was about to create.
        """
        spared = await _gather(self._delete(seen, action) for action in actions)
        for stale in spared:
            if stale is not None:
                raise stale

    async def create(self, seen: Round, actions: Sequence[CreateWorker]) -> bool:
        """Create pods in batches of 1, 2, 4 and so on; False if one was refused.

        One refusal is likely to mean that all are refused: a quota, a policy.
        """
        begin, size = 0, 1
        while begin < len(actions):
            batch = actions[begin : begin + size]
            errors = await _gather(self._create(seen, action) for action in batch)
            refused = [error for error in errors if error is not None]
            if refused:
                memory, now = seen.memory, self._clock.now()
                is_stuck = begin == 0 and len(refused) == len(batch)
                # Where some were made, the rest has not been refused in a row.
                memory.create_failures = memory.create_failures + 1 if is_stuck else 1
                memory.worker_refusal = read_refusal(
                    refused[0], now, memory.create_failures
                )
                return False
            begin, size = begin + size, size * 2
        seen.memory.worker_refusal = None
        seen.memory.create_failures = 0
        return True

    async def _delete(self, seen: Round, action: DeletePod) -> StaleWrite | None:
        try:
            raw = await self._writes.delete(
                PODS,
                action.name,
                namespace=seen.cluster.spec.target_namespace,
                uid=action.uid,
                resource_version=action.resource_version,
            )
        except StaleWrite as stale:
            # It has begun to run, or is another: the watch will show it.
            return stale
        if raw is not None and _is_pod(raw):
            self._caches.record_pod(parse_pod(raw))
        return None

    async def _create(self, seen: Round, action: CreateWorker) -> KubeError | None:
        manifest = make_member(seen.blueprint, WorkerRef(action.ordinal))
        try:
            raw = await self._writes.create(PODS, manifest)
        except AlreadyExists as error:
            return await self._judge(seen, action, manifest["metadata"]["name"], error)
        except KubeError as error:
            return error
        self._caches.record_pod(parse_pod(raw))
        return None

    async def _judge(
        self, seen: Round, action: CreateWorker, name: str, error: AlreadyExists
    ) -> KubeError | None:
        """Find out whose the pod is that has the worker's name."""
        place = seen.cluster.spec.target_namespace
        try:
            raw = await self._client.get(PODS, name, namespace=place)
        except NotFound:
            return error  # it has just gone: the next round makes it
        except KubeError as failure:
            return failure
        pod = parse_pod(raw)
        if pod.owner_uid == seen.blueprint.anchor_uid and pod.cluster:
            self._caches.record_pod(pod)
        else:
            seen.memory.taken_ordinals.add(action.ordinal)
        return None


def _is_pod(raw: bytes) -> bool:
    # A pod without a grace period goes at once; a Status says so.
    return b'"kind":"Pod"' in raw[:200]


async def _gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; the first that raises ends the others."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(call) for call in calls]
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    return [task.result() for task in running]
