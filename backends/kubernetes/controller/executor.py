"""Carry out a plan, in its order. Decides nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import assert_never

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.resources import CLUSTERS, SERVICES
from backends.kubernetes.controller.children import Children
from backends.kubernetes.controller.observer import Round
from backends.kubernetes.controller.tails import read_tail, read_warning
from backends.kubernetes.controller.workers import WorkerPods
from backends.kubernetes.controller.writes import Writes
from backends.kubernetes.crd.formatting import format_stop_patch
from backends.kubernetes.names import (
    SCHEDULER_CONTAINER,
    WORKER_CONTAINER,
    Child,
    format_anchor_name,
    format_scheduler_name,
)
from backends.kubernetes.planning.actions import (
    Action,
    AskWhy,
    CreateChild,
    CreateWorker,
    DeleteAnchor,
    DeleteCluster,
    DeletePod,
    KeepLogTail,
    LookUp,
    StopCluster,
)
from gateway.ports import Clock


class Executor:
    """Turns actions into calls; the first that is refused ends the round."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        children: Children,
        workers: WorkerPods,
        clock: Clock,
    ) -> None:
        self._client = client
        self._writes = writes
        self._children = children
        self._workers = workers
        self._clock = clock

    async def execute(self, seen: Round, actions: Sequence[Action]) -> bool:
        """Carry out ``actions``; False if one was refused, and the rest left out.

        Raises
        ------
        LeadLost
            If this process does not lead any more.
        KubeError
            If something else than a create fails.
        """
        for kind, group in _group(actions):
            if kind is DeletePod:
                deletes = [a for a in group if isinstance(a, DeletePod)]
                await self._workers.delete(seen, deletes)
            elif kind is CreateWorker:
                creates = [a for a in group if isinstance(a, CreateWorker)]
                if not await self._workers.create(seen, creates):
                    return False
            elif kind is CreateChild:
                children = [a.child for a in group if isinstance(a, CreateChild)]
                if not await self._create_children(seen, children):
                    return False
            else:
                for action in group:
                    await self._execute_one(seen, action)
        return True

    async def _create_children(self, seen: Round, children: Sequence[Child]) -> bool:
        blueprint = seen.blueprint
        for child in children:
            uid = await self._children.create(seen, blueprint, child)
            if child in seen.memory.refusals:
                return False
            if child is Child.ANCHOR:
                # It owns all that comes after it.
                blueprint = replace(blueprint, anchor_uid=uid)
        return True

    async def _execute_one(self, seen: Round, action: Action) -> None:
        cluster = seen.cluster
        match action:
            case LookUp(child):
                await self._children.look_up(seen, child)
            case KeepLogTail(name, uid):
                seen.memory.log_tails[uid] = await self._keep_tail(seen, name)
            case AskWhy(name, uid):
                await self._ask_why(seen, name, uid)
            case DeleteAnchor(uid):
                await self._writes.delete(
                    SERVICES,
                    format_anchor_name(cluster.name),
                    namespace=cluster.spec.target_namespace,
                    uid=uid,
                )
                seen.memory.deleted.add(uid)
            case StopCluster(reason, message):
                patch = format_stop_patch(str(reason), message)
                # Of this very cluster, never of a later one with its name.
                patch["metadata"]["uid"] = cluster.uid
                await self._writes.patch(
                    CLUSTERS, cluster.name, patch, namespace=cluster.namespace
                )
            case DeleteCluster(uid):
                await self._writes.delete(
                    CLUSTERS, cluster.name, namespace=cluster.namespace, uid=uid
                )
            case CreateChild() | CreateWorker() | DeletePod():
                raise AssertionError("carried out in groups")
            case _:
                assert_never(action)

    async def _ask_why(self, seen: Round, name: str, uid: str) -> None:
        place, memory = seen.cluster.spec.target_namespace, seen.memory
        memory.words[uid] = await read_warning(self._client, place, name, uid)
        memory.asked[uid] = self._clock.now()

    async def _keep_tail(self, seen: Round, name: str) -> tuple[str, ...]:
        is_scheduler = name == format_scheduler_name(seen.cluster.name)
        container = SCHEDULER_CONTAINER if is_scheduler else WORKER_CONTAINER
        place = seen.cluster.spec.target_namespace
        return await read_tail(self._client, place, name, container)


def _group(actions: Sequence[Action]) -> Iterator[tuple[type, list[Action]]]:
    """Yield runs of actions of one kind."""
    for kind, group in groupby(actions, key=type):
        yield kind, list(group)
