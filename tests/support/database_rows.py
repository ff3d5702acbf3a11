"""Rows of one cluster, in words: ``rows().running(wanted=2).worker(CONNECTED)``."""

from dataclasses import dataclass, replace
from typing import Any

from backends.database.launcher import JobRef, JobState, JobView, Role
from backends.database.observed import Observed
from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    Snapshot,
    WorkerRecord,
    WorkerStage,
)
from gateway.domain.cluster import ClusterPhase
from gateway.domain.config import ResolvedConfig

NOW_MS = 10_000_000
RETENTION_MS = 86_400_000
NAME = "c1"
SCHEDULER = JobRef(NAME, Role.SCHEDULER, "scheduler")

RUNNING = JobView(JobState.RUNNING, started_ms=NOW_MS - 1000)
PENDING = JobView(JobState.PENDING)
ABSENT = JobView(JobState.ABSENT)


def worker_ref(ordinal: int) -> JobRef:
    """Return the job of a worker."""
    return JobRef(NAME, Role.WORKER, f"{NAME}-worker-{ordinal}")


def ended(code: int | None = 1, message: str = "", *lines: str) -> JobView:
    """Return the view of a job that has ended."""
    return JobView(
        JobState.ENDED, exit_code=code, message=message, log_tail=lines, started_ms=1
    )


def seen(scheduler: JobView = RUNNING, /, **facts: Any) -> Observed:
    """Return what is seen: the scheduler, and ``workers`` by ordinal."""
    jobs = {SCHEDULER: scheduler}
    jobs |= {worker_ref(n): view for n, view in facts.pop("workers", {}).items()}
    return Observed(jobs=jobs, **facts)


@dataclass(frozen=True)
class Rows:
    """Builds a `Snapshot`."""

    snapshot: Snapshot

    def cluster(self, **fields: Any) -> "Rows":
        """Change fields of the cluster."""
        cluster = replace(self.snapshot.cluster, **fields)
        return Rows(replace(self.snapshot, cluster=cluster))

    def config(self, **fields: Any) -> "Rows":
        """Change the configuration."""
        spec = self.snapshot.spec
        spec = replace(spec, config=replace(spec.config, **fields))
        return Rows(replace(self.snapshot, spec=spec))

    def running(self, wanted: int = 0) -> "Rows":
        """Let it be Running."""
        return self.cluster(
            phase=ClusterPhase.RUNNING,
            launched=True,
            started_ms=NOW_MS - 60_000,
            running_ms=NOW_MS - 50_000,
            scheduler_port=8786,
            dashboard_port=8787,
            route_host="127.0.0.1",
            replicas=wanted,
            reserved_workers=wanted,
        ).heard()

    def ended(self, phase: ClusterPhase = ClusterPhase.STOPPED) -> "Rows":
        """Let it have ended just now."""
        return self.cluster(
            phase=phase, active=False, stopped_ms=NOW_MS, reason="StoppedByUser"
        )

    def worker(self, stage: WorkerStage, count: int = 1, **fields: Any) -> "Rows":
        """Add workers."""
        first = self.snapshot.cluster.next_ordinal
        if stage in (WorkerStage.CONNECTED, WorkerStage.DRAINING):
            fields = {"connected_ms": NOW_MS - 9000, **fields}
        if stage is not WorkerStage.WANTED:
            fields = {"started_ms": NOW_MS - 10_000, **fields}
        made = tuple(
            WorkerRecord(first + n, NOW_MS - 11_000, stage, **fields)
            for n in range(count)
        )
        workers = (*self.snapshot.workers, *made)
        cluster = replace(self.snapshot.cluster, next_ordinal=first + count)
        members = sum(w.stage is not WorkerStage.ENDED for w in workers)
        cluster = replace(cluster, reserved_workers=max(cluster.most_workers, members))
        return Rows(replace(self.snapshot, workers=workers, cluster=cluster))

    def heard(self, age_s: float = 1, **fields: Any) -> "Rows":
        """Let the last sync be ``age_s`` old."""
        fields = {"seen": self.snapshot.cluster.generation, **fields}
        beat = BeatRecord(NOW_MS - round(age_s * 1000), **fields)
        return Rows(replace(self.snapshot, beat=beat))

    def build(self) -> Snapshot:
        """Return the snapshot."""
        return self.snapshot


def rows(**config: Any) -> Rows:
    """Return the rows of a cluster that was just accepted."""
    spec = ClusterSpec(
        config=ResolvedConfig(idle_timeout_s=0, no_client_timeout_s=0, **config)
    )
    record = ClusterRecord(1, NAME, "alice", NOW_MS - 70_000)
    return Rows(Snapshot(record, spec))
