"""Rows of the database as plain values, and what they mean to the core.

Pure. How they are stored stands in ``tables`` and ``store``; what is to be done
about them in ``plan``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from backends.database.launcher import JobRef, Role
from backends.database.routes import Route
from gateway.domain.cluster import ClusterPhase
from gateway.domain.config import ResolvedConfig
from gateway.domain.lifetime import Beat, Lifetimes, count_awaited_s
from gateway.domain.names import format_worker_name, parse_worker_ordinal
from gateway.domain.policy import Shape
from gateway.domain.sync import Adaptive

SCHEDULER_JOB: Final = "scheduler"
_SKEW_S: Final = 10.0


class WorkerStage(StrEnum):
    """Where a worker's row is on its one-way road; only draining turns back."""

    WANTED = "wanted"  # its job may or may not have been started
    STARTED = "started"  # its job was seen
    CONNECTED = "connected"  # the scheduler has reported it
    DRAINING = "draining"  # the scheduler gives it no new tasks
    STOPPING = "stopping"  # it has left, or is to; its job is being removed
    ENDED = "ended"  # nothing of its job is left

    @property
    def is_live(self) -> bool:
        """True while the worker is meant to work."""
        return self not in (WorkerStage.STOPPING, WorkerStage.ENDED)

    @property
    def is_connected(self) -> bool:
        """True while the scheduler has it."""
        return self in (WorkerStage.CONNECTED, WorkerStage.DRAINING)


class LeaveCause(StrEnum):
    """Why a worker left, or is to leave."""

    FAULT = "fault"
    RETURNED = "returned"  # by itself, without a fault
    DRAINED = "drained"
    SURPLUS = "surplus"  # no longer wanted before it connected


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What changes about a cluster, as the database has it.

    Parameters
    ----------
    id
        Key of the row; grows with each creation.
    phase, active
        See `gateway.domain.cluster.derive_status`.
    version
        Grows with each write of this record or of its workers.
    generation
        Grows when what is wanted of the scheduler changes.
    replicas
        Wanted number of workers; in adaptive mode the last clamped target.
    next_ordinal
        Of the next worker. Ordinals never come back.
    reserved_workers
        What shares count: the most that is wanted or still there.
    created_ms, started_ms, running_ms, stopped_ms
        Accepted; scheduler's job began to run; Running; ended.
    launched
        Whether the launcher has ever shown the scheduler's job.
    scheduler_port, dashboard_port
        As the plugin reports them; worth nothing until `route_host` is set.
    route_host
        Host of the scheduler, once it proved the cluster's CA.
    is_failing
        Whether the cluster ends as Failed; set with `active` to false, so
        that a crash in the middle of a teardown does not lose the verdict.
    reason, message, exit_code, log_tail
        Why it stopped or failed.
    start_failures
        Failed worker starts since a worker last connected.
    is_silent
        Whether the lack of syncs has been reported.
    asked_ms
        When people last said how many workers they want.
    is_warned
        Whether the end of its longest life has been announced.
    """

    id: int
    name: str
    owner: str
    created_ms: int
    phase: ClusterPhase = ClusterPhase.PENDING
    active: bool = True
    version: int = 1
    generation: int = 1
    replicas: int = 0
    adaptive_id: str | None = None
    adaptive_minimum: int = 0
    adaptive_maximum: int = 0
    next_ordinal: int = 0
    reserved_workers: int = 0
    launched: bool = False
    started_ms: int | None = None
    running_ms: int | None = None
    stopped_ms: int | None = None
    scheduler_port: int | None = None
    dashboard_port: int | None = None
    route_host: str | None = None
    is_failing: bool = False
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()
    start_failures: int = 0
    is_silent: bool = False
    asked_ms: int | None = None
    is_warned: bool = False

    @property
    def adaptive(self) -> Adaptive | None:
        """Bounds of the adaptive mode, ``None`` outside of it."""
        if self.adaptive_id is None:
            return None
        return Adaptive(self.adaptive_id, self.adaptive_minimum, self.adaptive_maximum)

    @property
    def most_workers(self) -> int:
        """Highest number of workers that it may want without asking again."""
        return self.replicas if self.adaptive_id is None else self.adaptive_maximum

    @property
    def accepts_requests(self) -> bool:
        """True while people may still change what is wanted of it."""
        return self.active and not self.phase.is_terminal

    @property
    def route(self) -> Route | None:
        """Where the public port sends its traffic; ``None`` while nowhere."""
        if (
            self.route_host is None
            or self.scheduler_port is None
            or not self.accepts_requests
        ):
            return None
        return Route(
            self.name, self.route_host, self.scheduler_port, self.dashboard_port
        )

    @property
    def scheduler_ref(self) -> JobRef:
        """The scheduler's job."""
        return JobRef(self.name, Role.SCHEDULER, SCHEDULER_JOB)

    def worker_ref(self, ordinal: int) -> JobRef:
        """Return the job of worker ``ordinal``."""
        return _worker_ref(self.name, ordinal)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What never changes about a cluster after it was accepted.

    Parameters
    ----------
    groups
        Of the owner at that time; shares are counted by them.
    options
        As the user gave them, normalised.
    config
        What it is started with.
    api_url
        Where its scheduler finds the API.
    """

    groups: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    config: ResolvedConfig = field(default_factory=ResolvedConfig)
    api_url: str = ""

    @property
    def lifetimes(self) -> Lifetimes:
        """Longest times of this cluster."""
        config = self.config
        return Lifetimes(
            config.idle_timeout_s, config.no_client_timeout_s, config.max_lifetime_s
        )

    @property
    def shape(self) -> Shape:
        """What its scheduler and each worker take."""
        config = self.config
        return Shape(
            config.scheduler_cores,
            config.scheduler_memory_bytes,
            config.worker_cores,
            config.worker_memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """One worker, as the database has it.

    Parameters
    ----------
    ordinal
        Its number in the cluster; part of its name.
    created_ms, started_ms, connected_ms, stopped_ms
        Row made; job began to run; scheduler first had it; it left.
    cause, exit_code, message
        Why it left.
    """

    ordinal: int
    created_ms: int
    stage: WorkerStage = WorkerStage.WANTED
    started_ms: int | None = None
    connected_ms: int | None = None
    stopped_ms: int | None = None
    cause: LeaveCause | None = None
    exit_code: int | None = None
    message: str = ""

    @property
    def is_failed_start(self) -> bool:
        """True if it left for a fault before the scheduler ever had it."""
        return self.cause is LeaveCause.FAULT and self.connected_ms is None


@dataclass(frozen=True, slots=True)
class BeatRecord:
    """The last sync of a scheduler. Kept apart: it does not count as a change.

    Parameters
    ----------
    received_ms
        When it arrived.
    idle_s, no_client_s, clients, unfinished, outsiders
        As in `gateway.domain.sync.SyncReport`.
    held
        Reason by worker name, for a drain that cannot end.
    versions
        Of the scheduler's software.
    seen
        Generation that the scheduler knew of when it sent it.
    """

    received_ms: int
    idle_s: float = 0.0
    no_client_s: float = 0.0
    clients: int = 0
    unfinished: int = 0
    outsiders: int = 0
    held: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seen: int = 0

    def seen_at(self, now_ms: int) -> Beat:
        """Return it as the lifetime rules want it, without what rows know better."""
        age_s = (now_ms - self.received_ms) / 1000
        # Another server's clock may be ahead a little. What comes from far ahead came
        # before a clock was set back, nobody knows how long.
        age_s = max(0.0, age_s) if age_s > -_SKEW_S else math.inf
        return Beat(age_s=age_s, idle_s=self.idle_s, no_client_s=self.no_client_s)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the database says of one cluster, read at once.

    Parameters
    ----------
    workers
        By ordinal; ended ones of late included.
    beat
        ``None`` before the first sync.
    claimed_by
        Id of the server that reconciles it, if that still lives.
    """

    cluster: ClusterRecord
    spec: ClusterSpec
    workers: tuple[WorkerRecord, ...] = ()
    beat: BeatRecord | None = None
    claimed_by: str | None = None

    @property
    def members(self) -> tuple[WorkerRecord, ...]:
        """Workers of which something may be left."""
        return tuple(w for w in self.workers if w.stage is not WorkerStage.ENDED)

    def find_beat(self, now_ms: int) -> Beat | None:
        """Return the last sync as the lifetime rules want it."""
        if self.beat is None:
            return None
        came = [w.connected_ms for w in self.workers if w.connected_ms is not None]
        connected = sum(w.stage.is_connected for w in self.workers)
        awaited_s = count_awaited_s(
            asked_s=_count_s(self.cluster.asked_ms, now_ms),
            patience_s=self.spec.config.worker_start_timeout_s,
            missing=self.cluster.replicas - connected,
            arrived_s=_count_s(max(came, default=None), now_ms),
        )
        return replace(self.beat.seen_at(now_ms), awaited_s=awaited_s)

    def find_age_s(self, now_ms: int) -> float:
        """Return the seconds since the cluster was accepted."""
        return (now_ms - self.cluster.created_ms) / 1000

    def job_refs(self) -> tuple[JobRef, ...]:
        """Return the jobs that may have something left, scheduler first."""
        cluster = self.cluster
        return (
            cluster.scheduler_ref,
            *(cluster.worker_ref(w.ordinal) for w in self.members),
        )


def bump_versions(before: ClusterRecord, after: ClusterRecord) -> ClusterRecord:
    """Return ``after`` with the version and generation that follow ``before``.

    Examples
    --------
    >>> old = ClusterRecord(1, "c1", "alice", 0, version=7, generation=3)
    >>> new = bump_versions(old, replace(old, replicas=2))
    >>> new.version, new.generation
    (8, 4)
    >>> bump_versions(old, replace(old, launched=True)).generation
    3
    """
    is_other = _wanted(before) != _wanted(after)
    return replace(
        after,
        version=before.version + 1,
        generation=before.generation + is_other,
    )


def parse_ordinals(cluster: str, names: Iterable[str]) -> frozenset[int]:
    """Return the ordinals of our own workers among ``names``."""
    found = (parse_worker_ordinal(cluster, name) for name in names)
    return frozenset(ordinal for ordinal in found if ordinal is not None)


@lru_cache(maxsize=100_000)
def _worker_ref(cluster: str, ordinal: int) -> JobRef:
    # Asked for several times per worker and plan, and there are thousands.
    return JobRef(cluster, Role.WORKER, format_worker_name(cluster, ordinal))


def _wanted(cluster: ClusterRecord) -> tuple[object, ...]:
    return (cluster.active, cluster.replicas, cluster.adaptive, cluster.is_warned)


def _count_s(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else max(0.0, (now_ms - since_ms) / 1000)
