"""Decide which workers a running cluster has. Pure: no I/O, no clock.

Rows are the worker set: a job is started only for a row that is written, and a
row ends only when nothing is left of its job. So whatever is lost or repeated
in between, there are never more workers than were wanted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from backends.database.actions import (
    Action,
    Change,
    Plan,
    StartJob,
    StopJob,
    find_earliest,
)
from backends.database.launcher import JobState
from backends.database.observed import Observed
from backends.database.records import (
    ClusterRecord,
    LeaveCause,
    Snapshot,
    WorkerRecord,
    WorkerStage,
)
from backends.database.settle import find_due_ms, leave, settle_worker
from gateway.domain.cluster import ClusterEvent, EventType, FailureReason
from gateway.domain.names import format_worker_name

# So that a stop is not kept waiting by a thousand starts.
STARTS_PER_PLAN: Final = 50
# So that a write stays short; the rest follows at once.
ROWS_PER_PLAN: Final = 1000
STOP_AGAIN_MS: Final = 500
# A scheduler that learns of a new number calls again at once; that is no change
# of the cluster, and wakes nobody.
LOOK_AGAIN_MS: Final = 250
# Workers that fail after they connected do not fail the cluster, since it may
# hold data; they are replaced, but not faster than this within the window.
RESTART_WINDOW_MS: Final = 60_000
_LEAST_RESTARTS: Final = 5
# An owner who reads events wants the first few, not a thousand alike.
_EVENTS_PER_PLAN: Final = 5


def plan_workforce(desired: Snapshot, observed: Observed, now_ms: int) -> Plan:
    """Plan the workers of a running cluster.

    Surplus workers that the scheduler does not have are stopped, newest first,
    once it knows how many are wanted: until then one may have connected, and
    hold data, of which it has not told. Connected ones are the scheduler's to
    drain: they leave when their job has ended. What left without being asked
    to is replaced.

    Parameters
    ----------
    desired, observed, now_ms
        As for `backends.database.plan.plan`.

    Returns
    -------
    Plan
        Stops before starts; each by ordinal.
    """
    before = desired.cluster
    settled = [settle_worker(desired, w, observed, now_ms) for w in desired.workers]
    changed = _differing(desired.workers, settled)
    crash = _find_crash_loop(desired, settled, changed)
    if crash is not None:
        return _plan_crash(desired, observed, changed, crash, now_ms)
    failures = before.start_failures + sum(map(_has_failed_to_start, changed))
    rows, drop_ms = _drop_surplus(desired, settled, now_ms)
    fresh, resume_ms = _add_missing(before, rows, now_ms)
    rows += fresh
    members = sum(w.stage is not WorkerStage.ENDED for w in rows)
    after = replace(
        before,
        start_failures=failures,
        next_ordinal=before.next_ordinal + len(fresh),
        reserved_workers=max(before.most_workers, members),
    )
    changed = (*_differing(desired.workers, rows), *fresh)
    events = _describe_changes(before, changed, len(fresh), now_ms)
    actions, again_ms = _act(before, rows, observed, now_ms)
    dues = (find_due_ms(desired, w, observed, now_ms) for w in rows)
    return Plan(
        Change(after, changed, events) if changed or after != before else None,
        actions,
        find_earliest([resume_ms, drop_ms, again_ms, *dues]),
    )


def _has_failed_to_start(worker: WorkerRecord) -> bool:
    # Counted once, when nothing is left of it: then its last lines are there.
    return worker.stage is WorkerStage.ENDED and worker.is_failed_start


def _find_crash_loop(
    desired: Snapshot,
    settled: Sequence[WorkerRecord],
    changed: Sequence[WorkerRecord],
) -> WorkerRecord | None:
    """Return the failed start that is one too many."""
    limit = desired.spec.config.worker_start_failure_limit
    new = [w for w in changed if _has_failed_to_start(w)]
    if limit <= 0 or not new:
        return None
    if desired.cluster.start_failures + len(new) < limit:
        return None
    # A cluster with workers may hold data and goes on with what it has.
    if any(w.stage.is_connected for w in settled):
        return None
    return new[-1]


def _plan_crash(
    desired: Snapshot,
    observed: Observed,
    changed: Sequence[WorkerRecord],
    crash: WorkerRecord,
    now_ms: int,
) -> Plan:
    before = desired.cluster
    view = observed.view(before.worker_ref(crash.ordinal))
    failures = before.start_failures + sum(map(_has_failed_to_start, changed))
    name = format_worker_name(before.name, crash.ordinal)
    text = (
        f"{failures} workers in a row failed before they connected; "
        f"the last, {name}, {crash.message}"
    )
    after = replace(
        before,
        active=False,
        is_failing=True,
        reason=FailureReason.WORKERS_CRASHING,
        message=text,
        exit_code=crash.exit_code,
        log_tail=view.log_tail,
        start_failures=failures,
    )
    events = (
        *_describe_changes(before, changed, 0, now_ms),
        ClusterEvent(
            now_ms, EventType.WARNING, FailureReason.WORKERS_CRASHING, text, "worker"
        ),
    )
    return Plan(Change(after, tuple(changed), events))


def _drop_surplus(
    desired: Snapshot, rows: Sequence[WorkerRecord], now_ms: int
) -> tuple[list[WorkerRecord], int | None]:
    """Return the rows, and when to look again if the scheduler is to tell first."""
    cluster, beat = desired.cluster, desired.beat
    surplus = sum(w.stage.is_live for w in rows) - cluster.replicas
    if surplus <= 0:
        return list(rows), None
    is_told = beat is not None and beat.seen >= cluster.generation
    again_ms = None
    kept = []
    for worker in sorted(rows, key=lambda w: w.ordinal, reverse=True):
        after = worker
        if surplus > 0 and worker.stage in (WorkerStage.WANTED, WorkerStage.STARTED):
            surplus -= 1
            if is_told or worker.started_ms is None:
                after = leave(worker, now_ms, "not wanted", LeaveCause.SURPLUS)
            else:
                again_ms = now_ms + LOOK_AGAIN_MS
        kept.append(after)
    return kept[::-1], again_ms


def _add_missing(
    cluster: ClusterRecord, rows: Sequence[WorkerRecord], now_ms: int
) -> tuple[list[WorkerRecord], int | None]:
    """Return new rows, and when more may follow if failures hold them back."""
    members = sum(w.stage is not WorkerStage.ENDED for w in rows)
    missing = cluster.replicas - members
    if missing <= 0:
        return [], None
    window_ms = now_ms - RESTART_WINDOW_MS
    unasked = (LeaveCause.FAULT, LeaveCause.RETURNED)
    left = [w.stopped_ms for w in rows if w.cause in unasked]
    recent = [at_ms for at_ms in left if at_ms is not None and at_ms > window_ms]
    room = max(_LEAST_RESTARTS, 2 * cluster.replicas) - len(recent)
    fresh = [
        WorkerRecord(cluster.next_ordinal + n, now_ms)
        for n in range(max(0, min(missing, room, ROWS_PER_PLAN)))
    ]
    if len(fresh) == min(missing, ROWS_PER_PLAN):
        return fresh, None
    oldest_ms = find_earliest(recent)
    return fresh, None if oldest_ms is None else oldest_ms + RESTART_WINDOW_MS


def _act(
    cluster: ClusterRecord,
    rows: Iterable[WorkerRecord],
    observed: Observed,
    now_ms: int,
) -> tuple[tuple[Action, ...], int | None]:
    stops, starts = [], []
    for worker in rows:
        ref = cluster.worker_ref(worker.ordinal)
        if worker.stage is WorkerStage.STOPPING:
            stops.append(StopJob(ref))
        elif (
            worker.stage is WorkerStage.WANTED
            and observed.view(ref).state is JobState.ABSENT
        ):
            starts.append(StartJob(ref))
    again_ms = now_ms + STOP_AGAIN_MS if stops else None
    return (*stops, *starts[:STARTS_PER_PLAN]), again_ms


def _differing(
    before: Sequence[WorkerRecord], after: Sequence[WorkerRecord]
) -> tuple[WorkerRecord, ...]:
    return tuple(
        new for old, new in zip(before, after[: len(before)], strict=True) if old != new
    )


def _describe_changes(
    cluster: ClusterRecord, changed: Sequence[WorkerRecord], fresh: int, now_ms: int
) -> tuple[ClusterEvent, ...]:
    failed = [
        w
        for w in changed
        if w.cause is LeaveCause.FAULT and w.stage is WorkerStage.STOPPING
    ]
    events = [
        ClusterEvent(
            now_ms,
            EventType.WARNING,
            "WorkerFailed",
            f"worker {worker.message}",
            "worker",
            format_worker_name(cluster.name, worker.ordinal),
        )
        for worker in failed[:_EVENTS_PER_PLAN]
    ]
    if len(failed) > _EVENTS_PER_PLAN:
        text = f"{len(failed) - _EVENTS_PER_PLAN} more workers failed"
        events.append(
            ClusterEvent(now_ms, EventType.WARNING, "WorkerFailed", text, "worker")
        )
    if fresh:
        text = f"added {fresh} workers; {cluster.replicas} are wanted"
        events.append(
            ClusterEvent(now_ms, EventType.NORMAL, "WorkersAdded", text, "worker")
        )
    return tuple(events)
