"""A ``DaskCluster`` as values. Spellings are those of the custom resource.

Absent fields have their meaning as defaults here, so that nobody else need
know what absence means. Structs without cyclic garbage collection: an API
server keeps thousands.
"""

from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct, field

from gateway.domain.cluster import ClusterPhase
from gateway.domain.scaling import clamp_target


class Value(
    Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True
):
    """What all parts have in common: immutable, in camel case, sparse."""


class Problem(NamedTuple):
    """Why a spec must not be acted on.

    Parameters
    ----------
    field
        Path in the object, such as ``spec.targetNamespace``.
    text
        What is wrong, and what would be right.
    """

    field: str
    text: str


class Owner(Value, frozen=True):
    """Who may use the cluster; fixed when it is made.

    Parameters
    ----------
    user
        Name as the authenticator gives it; "" only in an object with problems.
    groups
        The user's groups when the cluster was made.
    """

    user: str = ""
    groups: tuple[str, ...] = ()


class AdaptiveSpec(Value, frozen=True, omit_defaults=False):
    """As `gateway.domain.sync.Adaptive`; ``id`` is "" where kubectl made it.

    Written whole: a minimum of 0 is a value here.
    """

    id: str = ""
    minimum: int = 0
    maximum: int = 0


class WorkersSpec(Value, frozen=True):
    """How many workers are wanted: a number, or bounds for the plugin's choice."""

    replicas: int = 0
    adaptive: AdaptiveSpec | None = None


class RoleSpec(Value, frozen=True):
    """Pods of one role.

    Parameters
    ----------
    command
        Words that start the program; our arguments follow. ``None`` is the
        controller's default.
    template
        A sparse PodTemplateSpec, laid over the controller's pod; see
        `backends.kubernetes.desired.overlay`.
    """

    command: tuple[str, ...] | None = None
    template: dict[str, Any] = field(default_factory=dict)


class WorkerSpec(RoleSpec, frozen=True):
    """Worker pods; ``threads`` of one worker, ``None``: its whole cores."""

    threads: int | None = None


class LimitsSpec(Value, frozen=True):
    """Cap of the cluster, and what each pod counts for in its owner's share.

    Parameters
    ----------
    max_workers
        ``None`` is no cap.
    scheduler_cores, worker_cores
        Three decimals count.
    scheduler_memory_bytes, worker_memory_bytes
        Bytes.
    """

    max_workers: int | None = None
    scheduler_cores: float = 0.0
    scheduler_memory_bytes: int = 0
    worker_cores: float = 0.0
    worker_memory_bytes: int = 0


class LifetimesSpec(Value, frozen=True):
    """Seconds, as in `Lifetimes`; ``None`` is the controller's default."""

    idle_timeout_seconds: float | None = None
    no_client_timeout_seconds: float | None = None
    max_lifetime_seconds: float | None = None
    drain_timeout_seconds: float | None = None
    adaptive_period_seconds: float | None = None
    scheduler_start_timeout_seconds: float | None = None
    worker_start_timeout_seconds: float | None = None
    image_pull_timeout_seconds: float | None = None
    worker_start_failure_limit: int | None = None


class ClusterSpec(Value, frozen=True):
    """What people want.

    Parameters
    ----------
    options
        The user's options as stored, JSON values.
    target_namespace
        Where the pods are; fixed. "" only in an object with problems.
    active
        False once it is to stop; never true again.
    retention_seconds
        How long it is kept after its end; ``None`` is the controller's default.
    """

    owner: Owner = Owner()
    options: dict[str, Any] = field(default_factory=dict)
    target_namespace: str = ""
    active: bool = True
    workers: WorkersSpec = WorkersSpec()
    scheduler: RoleSpec = RoleSpec()
    worker: WorkerSpec = WorkerSpec()
    limits: LimitsSpec = LimitsSpec()
    lifetimes: LifetimesSpec = LifetimesSpec()
    retention_seconds: float | None = None


class WorkersStatus(Value, frozen=True):
    """The worker set as text, and how the workers are.

    Parameters
    ----------
    next, members, epoch
        See `backends.kubernetes.observed.worker_set`; ``members`` is ``None``
        where there is no set yet.
    wanted, ready, starting
        Numbers of workers.
    failures, last_failure_time
        Failed workers in a row, and when the last one failed.
    """

    next: int = 0
    members: str | None = None
    epoch: int = 0
    wanted: int = 0
    ready: int = 0
    starting: int = 0
    failures: int = 0
    last_failure_time: datetime | None = None


class AdaptiveTarget(Value, frozen=True):
    """What the plugin last wanted, under which adaptive id. The API server's field."""

    id: str
    target: int


class Condition(Value, frozen=True):
    """One condition; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class ClusterStatus(Value, frozen=True):
    """What is.

    Parameters
    ----------
    phase
        An unknown one reads as Pending: it is found anew from what is there.
    reason, message
        Why it ended; before its end, what it waits for. "" for nothing.
    workers
        See `WorkersStatus`.
    adaptive_target, first_sync_time, first_worker_time
        Written by the API server alone, by merge patches of their own: the
        last target; when the scheduler first called; when one of our workers
        was first connected.
    conditions
        In the order of `backends.kubernetes.planning.conditions.TYPES`.
    scheduler_pod
        Its name, once it was made.
    host
        Where the scheduler is to be reached inside Kubernetes.
    start_time, completion_time
        First seen by a controller; ended.
    stop_reason, stop_message
        Who asked to stop, and why.
    log_tail
        Last lines of the process that ended, of a failed cluster.
    selector
        Selects the worker pods, for the scale subresource.
    observed_generation
        Generation that the rest was worked out from.
    """

    phase: ClusterPhase = ClusterPhase.PENDING
    reason: str = ""
    message: str = ""
    workers: WorkersStatus = WorkersStatus()
    adaptive_target: AdaptiveTarget | None = None
    first_sync_time: datetime | None = None
    first_worker_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    scheduler_pod: str = ""
    host: str = ""
    start_time: datetime | None = None
    completion_time: datetime | None = None
    stop_reason: str = ""
    stop_message: str = ""
    log_tail: tuple[str, ...] = ()
    selector: str = ""
    observed_generation: int = 0


class DaskCluster(Value, frozen=True):
    """One ``DaskCluster`` as it was at ``resource_version``.

    Parameters
    ----------
    name, namespace, uid
        ``namespace`` is the gateway's; pods are in ``spec.target_namespace``.
    resource_version
        What a compare-and-set compares.
    generation
        Grows with each change of the spec.
    created
        By the API server's clock.
    asked
        When people last asked the API for a number of workers, or bounds; a text
        that anybody can write.
    is_deleting
        Whether somebody deletes it and something keeps it.
    labels
        Of the object.
    stop_reason, stop_message
        From the annotations that were written with ``active: false``.
    problems
        Why the spec must not be acted on; empty for a sound one. A field with
        a problem has its default.
    """

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int = 0
    created: datetime | None = None
    asked: datetime | None = None
    is_deleting: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    stop_reason: str = ""
    stop_message: str = ""
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()
    problems: tuple[Problem, ...] = ()

    @property
    def cluster(self) -> str:
        """Its own name, as views of other objects have it."""
        return self.name

    @property
    def wanted_workers(self) -> int:
        """How many workers are wanted now.

        While adaptive, the plugin's last target under the present id, else the
        number from before, within the bounds; never above the cluster's cap.
        """
        workers, cap = self.spec.workers, self.spec.limits.max_workers
        wanted = workers.replicas
        if workers.adaptive is not None:
            bounds, last = workers.adaptive, self.status.adaptive_target
            if last is not None and last.id == bounds.id:
                wanted = last.target
            wanted = clamp_target(wanted, bounds.minimum, bounds.maximum)
        return max(0, wanted if cap is None else min(wanted, cap))
