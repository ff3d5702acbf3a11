"""Put together what the planner is given: what caches show, what we remember."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.memory import ClusterMemory, Memories
from backends.kubernetes.crd.lifetimes import resolve_lifetimes
from backends.kubernetes.crd.values import DaskCluster, Problem
from backends.kubernetes.desired.blueprint import Blueprint, OwnerRef, Settings
from backends.kubernetes.desired.labels import build_worker_selector
from backends.kubernetes.desired.members import find_refusal
from backends.kubernetes.names import Child, format_anchor_name
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.inputs import (
    Desired,
    Observed,
    Refusal,
    RefusalKind,
)
from gateway.ports import Clock

# A namespace comes into reach by a new configuration, and so by a new process.
_UNSERVED: Final = timedelta(minutes=1)
# Looks at what the informer knows, which itself asks again every 30 s.
_DENIED: Final = timedelta(seconds=30)
# Nothing is made with it: who creates what the chart owns asks for the real one.
_NO_OWNER: Final = OwnerRef("v1", "ConfigMap", "unknown", "unknown")


@dataclass(frozen=True, slots=True)
class Round:
    """One look at one cluster."""

    desired: Desired
    observed: Observed
    blueprint: Blueprint
    memory: ClusterMemory

    @property
    def cluster(self) -> DaskCluster:
        """As it is seen in this round."""
        return self.desired.cluster


class Observer:
    """Looks at caches; makes no calls. Made anew when this process begins to lead."""

    def __init__(
        self, caches: Caches, memories: Memories, settings: Settings, clock: Clock
    ) -> None:
        self._caches = caches
        self._memories = memories
        self._settings = settings
        self._clock = clock
        self._led_since = clock.now()

    def observe(self, name: str, *, epoch: int) -> Round | None:
        """Return what is seen of a cluster; ``None`` if there is none."""
        cluster = self._caches.find_cluster(name)
        if cluster is None:
            return None
        memory = self._memories.of_cluster(name, cluster.uid)
        anchor = self._find_anchor(cluster, memory)
        is_ours = anchor is not None and anchor.cluster_uid == cluster.uid
        blueprint = Blueprint(
            cluster,
            self._settings,
            _NO_OWNER,
            anchor_uid=anchor.uid if anchor and is_ours else None,
        )
        desired = Desired(
            cluster,
            lifetimes=resolve_lifetimes(cluster.spec, self._settings.lifetimes),
            refusal=self._check(blueprint, memory),
            has_route_objects=self._settings.routes is not None,
            selector=build_worker_selector(self._settings.instance, name),
        )
        observed = self._observe(cluster, memory, anchor, epoch)
        return Round(desired, observed, blueprint, memory)

    def _observe(
        self,
        cluster: DaskCluster,
        memory: ClusterMemory,
        anchor: ServiceView | None,
        epoch: int,
    ) -> Observed:
        pods = [
            explain_wait(pod, memory.words)
            for pod in self._caches.pods_of(cluster.name, cluster.spec.target_namespace)
        ]
        schedulers = [pod for pod in pods if pod.is_scheduler]
        if anchor is not None:
            # What a former cluster of the name has left does not hide ours.
            schedulers.sort(key=lambda pod: pod.owner_uid != anchor.uid)
        absent = frozenset(memory.absent)
        # A live look counts for the plan that asked for it, and for no other.
        memory.absent.clear()
        return Observed(
            epoch=epoch,
            led_since=self._led_since,
            anchor=anchor,
            scheduler=schedulers[0] if schedulers else None,
            workers=tuple(pod for pod in pods if not pod.is_scheduler),
            made=frozenset(memory.made),
            absent=absent,
            refusals=self._find_refusals(cluster, memory),
            worker_refusal=memory.worker_refusal,
            taken_ordinals=frozenset(memory.taken_ordinals),
            log_tails=dict(memory.log_tails),
            asked=dict(memory.asked),
        )

    def _find_anchor(
        self, cluster: DaskCluster, memory: ClusterMemory
    ) -> ServiceView | None:
        name, place = format_anchor_name(cluster.name), cluster.spec.target_namespace
        for view in self._caches.anchors_of(cluster.name):
            if (view.namespace, view.name) == (place, name):
                return mark_deleted(view, memory.deleted)
        return None

    def _find_refusals(
        self, cluster: DaskCluster, memory: ClusterMemory
    ) -> dict[Child, Refusal]:
        place, now = cluster.spec.target_namespace, self._clock.now()
        if not self._caches.serves(place):
            text = f"this gateway does not serve namespace {place}"
            kind, until = RefusalKind.NO_NAMESPACE, now + _UNSERVED
            return {Child.ANCHOR: Refusal(kind, text, until)}
        denial = self._caches.find_denial(place)
        if denial:
            # Blind creates would be adopted later, or not; whoever may not look
            # is not likely to be allowed more.
            text = f"nothing can be seen of namespace {place}: {denial}"
            until = now + _DENIED
            return {Child.ANCHOR: Refusal(RefusalKind.FORBIDDEN, text, until)}
        return dict(memory.refusals)

    def _check(self, blueprint: Blueprint, memory: ClusterMemory) -> Problem | None:
        generation = blueprint.cluster.generation
        if memory.checked is None or memory.checked[0] != generation:
            # Both pods are built for it, so once for each change of the spec.
            memory.checked = generation, find_refusal(blueprint)
        return memory.checked[1]


def explain_wait(pod: PodView, words: Mapping[str, str]) -> PodView:
    """Return a pod with what its Events say, where its status says nothing."""
    text = words.get(pod.uid, "")
    if not text or pod.state is not PodState.PENDING or pod.cause is not None:
        return pod
    return msgspec.structs.replace(pod, cause=Cause.SETUP, text=text)


def mark_deleted(view: ServiceView, deleted: set[str]) -> ServiceView:
    """Return an anchor as it is, when a cache does not show yet that it goes."""
    if view.uid in deleted:
        return msgspec.structs.replace(view, is_terminating=True)
    return view
