"""What a planner is given, by what differs from a cluster that runs undisturbed."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import (
    ClusterSpec,
    ClusterStatus,
    DaskCluster,
    Owner,
    Problem,
    WorkersSpec,
)
from backends.kubernetes.names import Child, format_scheduler_name
from backends.kubernetes.observed.pods import PodView, parse_pod
from backends.kubernetes.observed.services import ServiceView
from backends.kubernetes.planning.actions import Plan
from backends.kubernetes.planning.inputs import (
    Desired,
    Observed,
    Refusal,
    RefusalKind,
)
from backends.kubernetes.planning.plan import plan
from gateway.domain.cluster import ClusterPhase
from tests.support.kube_pods import NOW, a_pod, a_scheduler
from tests.support.kube_world import READY

EPOCH = 4
SCHEDULER_POD = format_scheduler_name("c")
RUNNING_STATUS = ClusterStatus(
    phase=ClusterPhase.RUNNING,
    scheduler_pod=SCHEDULER_POD,
    start_time=NOW,
    first_sync_time=NOW,
    first_worker_time=NOW,
)
LIFETIMES = Lifetimes(
    scheduler_start_timeout_seconds=300,
    worker_start_timeout_seconds=200,
    image_pull_timeout_seconds=60,
    retention_seconds=3600,
)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def an_anchor(**changes: Any) -> ServiceView:
    anchor = ServiceView(
        namespace="team",
        name="dask-c",
        uid="anchor",
        resource_version="1",
        cluster="c",
        cluster_uid="uc",
    )
    return msgspec.structs.replace(anchor, **changes)


def worker(ordinal: int, status: dict[str, Any], **more: Any) -> PodView:
    return parse_pod(a_pod(ordinal, status=status, **more))


def scheduler(status: dict[str, Any] = READY, **more: Any) -> PodView:
    return parse_pod(a_scheduler(status=status, **more))


def refused(kind: RefusalKind, text: str = "no", *, until: float = 5) -> Refusal:
    return Refusal(kind, text, later(until))


class Situation:
    """Change what you like, then `plan`.

    Attributes
    ----------
    spec, status, cluster
        Fields of the `DaskCluster` to replace.
    desired, observed
        Fields of the planner's inputs to replace.
    """

    def __init__(self, status: ClusterStatus = RUNNING_STATUS) -> None:
        self.spec: dict[str, Any] = {}
        self.status = status
        self.cluster: dict[str, Any] = {}
        self.desired: dict[str, Any] = {"lifetimes": LIFETIMES}
        self.observed: dict[str, Any] = {
            "anchor": an_anchor(),
            "scheduler": scheduler(),
        }

    @classmethod
    def new(cls) -> "Situation":
        """Return that of a cluster of which there is nothing yet."""
        situation = cls(ClusterStatus())
        situation.observed = {}
        return situation

    @classmethod
    def starting(cls, **pod: Any) -> "Situation":
        """Return that of a cluster whose scheduler was made, by its pod."""
        status = ClusterStatus(scheduler_pod=SCHEDULER_POD, start_time=NOW)
        situation = cls(status)
        situation.observed["scheduler"] = scheduler(**pod)
        return situation

    def wanting(self, replicas: int) -> "Situation":
        self.spec["workers"] = WorkersSpec(replicas=replicas)
        return self

    def saying(self, **status: Any) -> "Situation":
        self.status = msgspec.structs.replace(self.status, **status)
        return self

    def with_workers(self, *pods: PodView) -> "Situation":
        self.observed["workers"] = pods
        return self

    def seen(self, **observed: Any) -> "Situation":
        self.observed |= observed
        return self

    def refusing(self, field: str, text: str) -> "Situation":
        self.desired["refusal"] = Problem(field, text)
        return self

    def inputs(self) -> tuple[Desired, Observed]:
        spec = ClusterSpec(owner=Owner(user="alice"), target_namespace="team")
        plain: dict[str, Any] = {
            "name": "c",
            "namespace": "gateway",
            "uid": "uc",
            "resource_version": "1",
            "generation": 3,
            "created": NOW,
            "spec": msgspec.structs.replace(spec, **self.spec),
            "status": self.status,
        }
        cluster = DaskCluster(**{**plain, **self.cluster})
        return Desired(cluster, **self.desired), Observed(epoch=EPOCH, **self.observed)

    def plan(self, seconds: float = 0) -> Plan:
        """Return the plan that many seconds after `NOW`."""
        return plan(*self.inputs(), later(seconds))


EVERYTHING = frozenset(Child)
