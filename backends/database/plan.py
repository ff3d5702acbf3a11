"""Plan the next step of one cluster: the decision table. Pure: no I/O, no clock.

The first rule that applies decides. Which workers are wanted is decided in
``workforce``.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from backends.database.actions import (
    Change,
    DeleteCluster,
    ForgetCluster,
    Plan,
    StartJob,
    StopJob,
    find_earliest,
)
from backends.database.launcher import JobState, JobView
from backends.database.observed import Observed, describe_end
from backends.database.records import (
    ClusterRecord,
    Snapshot,
    WorkerStage,
)
from backends.database.workforce import plan_workforce
from gateway.domain.cluster import (
    ClusterEvent,
    ClusterPhase,
    EventType,
    FailureReason,
)
from gateway.domain.lifetime import decide_stop, describe_last_end, find_warning_s

# A launcher that is asked to stop a job is asked again so often.
STOP_AGAIN_MS: Final = 250
# Idle workers end within a second. Longer than this a scheduler is not kept for
# workers that do not end: those that compute are given some seconds by Dask.
WORKERS_FIRST_MS: Final = 5_000
# A port or route that could not be proved is tried again so often.
PROVE_AGAIN_MS: Final = 250
# Held syncs come every 45 s and the plugin's backoff ends at 15 s: thrice that.
SILENT_AFTER_MS: Final = 180_000


def plan(
    desired: Snapshot, observed: Observed, now_ms: int, *, retention_ms: int
) -> Plan:
    """Plan the next step of one cluster.

    Parameters
    ----------
    desired
        What the database says, read before ``observed``.
    observed
        What is there. It may be stale; jobs that have ended stay ended.
    now_ms
        Milliseconds since the epoch.
    retention_ms
        How long an ended cluster is kept.

    Notes
    -----
    Planning again from the state that an interrupted plan has left leads to
    the same end: rows come before jobs, verdicts before teardowns, and no end
    is written before the launcher has said of each job that nothing is left.
    """
    cluster = desired.cluster
    if cluster.phase.is_terminal:
        return _plan_ended(desired, observed, now_ms, retention_ms)
    if not cluster.active:
        return _plan_teardown(desired, observed, now_ms)
    failure = _find_failure(desired, observed, now_ms)
    if failure is not None:
        return _plan_failure(cluster, failure, now_ms)
    if cluster.phase is ClusterPhase.PENDING:
        return _plan_start(desired, observed, now_ms)
    return _plan_running(desired, observed, now_ms)


def wants_scheduler_proof(cluster: ClusterRecord, view: JobView) -> bool:
    """Return whether it is time to ask the scheduler's port for the cluster's CA."""
    return (
        cluster.phase is ClusterPhase.PENDING
        and cluster.active
        and cluster.route_host is None
        and cluster.scheduler_port is not None
        and view.state is JobState.RUNNING
    )


def wants_route_proof(cluster: ClusterRecord) -> bool:
    """Return whether it is time to ask the public port for the cluster."""
    return cluster.phase is ClusterPhase.PENDING and cluster.route is not None


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: FailureReason
    message: str
    view: JobView | None = None


def _plan_ended(
    desired: Snapshot, observed: Observed, now_ms: int, retention_ms: int
) -> Plan:
    alive = (JobState.PENDING, JobState.RUNNING)
    left = tuple(
        StopJob(ref) for ref, view in observed.jobs.items() if view.state in alive
    )
    if left:
        return Plan(actions=left, look_again_ms=now_ms + STOP_AGAIN_MS)
    ended_ms = desired.cluster.stopped_ms or desired.cluster.created_ms
    if now_ms < ended_ms + retention_ms:
        return Plan(look_again_ms=ended_ms + retention_ms)
    return Plan(actions=(ForgetCluster(), DeleteCluster()))


def _plan_teardown(desired: Snapshot, observed: Observed, now_ms: int) -> Plan:
    left = tuple(
        StopJob(ref) for ref in desired.job_refs() if ref not in observed.stopped
    )
    if left:
        if _is_kept_for_workers(desired, observed, now_ms):
            left = tuple(a for a in left if a.ref != desired.cluster.scheduler_ref)
        return Plan(actions=left, look_again_ms=now_ms + STOP_AGAIN_MS)
    cluster = desired.cluster
    phase = ClusterPhase.FAILED if cluster.is_failing else ClusterPhase.STOPPED
    after = replace(cluster, phase=phase, stopped_ms=now_ms, reserved_workers=0)
    view = observed.view(cluster.scheduler_ref)
    if cluster.is_failing and not cluster.log_tail:
        # It had not ended yet when the verdict fell; now its last lines are there.
        after = replace(after, log_tail=view.log_tail)
    workers = tuple(
        replace(w, stage=WorkerStage.ENDED, stopped_ms=w.stopped_ms or now_ms)
        for w in desired.members
    )
    kind = EventType.WARNING if cluster.is_failing else EventType.NORMAL
    event = ClusterEvent(now_ms, kind, str(phase), cluster.message)
    return Plan(Change(after, workers, (event,)))


def _is_kept_for_workers(desired: Snapshot, observed: Observed, now_ms: int) -> bool:
    # A scheduler that ends tells its workers to, by way of the nannies that have
    # just been asked themselves: both then wait for each other until the nanny
    # kills, 8 s later (distributed 2026.8). Workers that go first go at once.
    scheduler = desired.cluster.scheduler_ref
    if observed.view(scheduler).state is not JobState.RUNNING:
        return False
    return any(
        now_ms < observed.asked_ms.get(ref, now_ms) + WORKERS_FIRST_MS
        for ref in desired.job_refs()
        if ref != scheduler and observed.view(ref).state is JobState.RUNNING
    )


def _plan_failure(cluster: ClusterRecord, failure: _Failure, now_ms: int) -> Plan:
    view = failure.view
    after = replace(
        cluster,
        active=False,
        is_failing=True,
        reason=failure.reason,
        message=failure.message,
        exit_code=None if view is None else view.exit_code,
        log_tail=() if view is None else view.log_tail,
    )
    event = ClusterEvent(
        now_ms, EventType.WARNING, failure.reason, failure.message, "scheduler"
    )
    return Plan(Change(after, (), (event,)))


def _find_failure(
    desired: Snapshot, observed: Observed, now_ms: int
) -> _Failure | None:
    cluster = desired.cluster
    ref = cluster.scheduler_ref
    view = observed.view(ref)
    if ref in observed.refused:
        text = f"scheduler cannot be started: {observed.refused[ref]}"
        return _Failure(FailureReason.START_FAILED, text)
    if view.state is JobState.ENDED:
        text = f"scheduler {describe_end(view)}"
        return _Failure(FailureReason.SCHEDULER_ENDED, text, view)
    if view.state is JobState.ABSENT and cluster.launched:
        if now_ms < observed.lost_at_ms(ref, now_ms):
            return None
        text = "scheduler is gone without a trace"
        return _Failure(FailureReason.SCHEDULER_LOST, text)
    if cluster.phase is ClusterPhase.PENDING:
        deadline_ms = _start_deadline_ms(desired, observed, view)
        if deadline_ms is not None and deadline_ms <= now_ms:
            return _describe_late_start(desired, observed, view)
    return None


def _start_deadline_ms(
    desired: Snapshot, observed: Observed, view: JobView
) -> int | None:
    timeout_s = desired.spec.config.scheduler_start_timeout_s
    if view.state is JobState.RUNNING:
        started_ms = view.started_ms or desired.cluster.started_ms
        # A launcher that cannot tell when: from when it was first seen to run.
        if started_ms is None:
            return None
        return observed.overdue_at_ms(started_ms, timeout_s)
    trouble = observed.troubles.get(desired.cluster.scheduler_ref)
    if view.state is JobState.ABSENT and trouble is not None:
        return trouble.since_ms + round(timeout_s * 1000)
    # In the platform's queue nothing is late: it may be full for days.
    return None


def _describe_late_start(
    desired: Snapshot, observed: Observed, view: JobView
) -> _Failure:
    cluster = desired.cluster
    seconds = f"{desired.spec.config.scheduler_start_timeout_s:g} s"
    reason = FailureReason.START_DEADLINE_PASSED
    if view.state is not JobState.RUNNING:
        trouble = observed.troubles[cluster.scheduler_ref]
        text = f"scheduler could not be started within {seconds}: {trouble.text}"
    elif cluster.scheduler_port is None:
        text = f"scheduler runs but did not call the gateway within {seconds}"
    elif cluster.route_host is None:
        text = (
            f"port {cluster.scheduler_port}, which the scheduler reported, did not "
            f"prove to be the cluster's within {seconds}"
        )
    else:
        reason = FailureReason.ROUTE_FAILED
        text = f"scheduler did not answer at the public port within {seconds}"
    return _Failure(reason, text)


def _plan_start(desired: Snapshot, observed: Observed, now_ms: int) -> Plan:
    cluster = desired.cluster
    view = observed.view(cluster.scheduler_ref)
    deadline_ms = _start_deadline_ms(desired, observed, view)
    if view.state is JobState.ABSENT:
        if cluster.launched:
            lost_ms = observed.lost_at_ms(cluster.scheduler_ref, now_ms)
            return Plan(look_again_ms=lost_ms)
        start = StartJob(cluster.scheduler_ref)
        return Plan(actions=(start,), look_again_ms=deadline_ms)
    after, events = _note_progress(cluster, observed, view, now_ms)
    if after != cluster:
        return Plan(Change(after, (), events))
    if cluster.scheduler_port is not None and view.state is JobState.RUNNING:
        deadline_ms = find_earliest([deadline_ms, now_ms + PROVE_AGAIN_MS])
    return Plan(look_again_ms=deadline_ms)


def _note_progress(
    cluster: ClusterRecord, observed: Observed, view: JobView, now_ms: int
) -> tuple[ClusterRecord, tuple[ClusterEvent, ...]]:
    after = replace(cluster, launched=True)
    events = []
    if view.state is JobState.RUNNING and cluster.started_ms is None:
        after = replace(after, started_ms=view.started_ms or now_ms)
        events.append(_event(now_ms, "SchedulerStarted", "scheduler began to run"))
    if wants_scheduler_proof(cluster, view) and observed.scheduler_proved:
        after = replace(after, route_host=view.host)
        events.append(_event(now_ms, "SchedulerConnected", "scheduler called back"))
    if cluster.route is not None and observed.route_proved:
        after = replace(after, phase=ClusterPhase.RUNNING, running_ms=now_ms)
        events.append(_event(now_ms, "Running", "cluster answers at the public port"))
    return after, tuple(events)


def _plan_running(desired: Snapshot, observed: Observed, now_ms: int) -> Plan:
    cluster = desired.cluster
    end = decide_stop(
        desired.spec.lifetimes,
        age_s=desired.find_age_s(now_ms),
        beat=desired.find_beat(now_ms),
    )
    if end is not None:
        reason, text = end
        after = replace(cluster, active=False, reason=reason, message=text)
        return Plan(Change(after, (), (_event(now_ms, reason, text),)))
    step = plan_workforce(desired, observed, now_ms)
    silent_ms = _silent_at_ms(desired, observed, now_ms)
    if silent_ms <= now_ms and not cluster.is_silent:
        step = _add_silence(desired, step, now_ms)
    warning_ms = _warning_at_ms(desired)
    if warning_ms is not None and warning_ms <= now_ms:
        step = _add_warning(desired, step, now_ms)
    instants = [step.look_again_ms, _life_ends_at_ms(desired), warning_ms]
    if not cluster.is_silent:
        instants.append(silent_ms)
    if cluster.launched and observed.view(cluster.scheduler_ref).state is (
        JobState.ABSENT
    ):
        instants.append(observed.lost_at_ms(cluster.scheduler_ref, now_ms))
    future = (at_ms for at_ms in instants if at_ms is not None and at_ms > now_ms)
    return replace(step, look_again_ms=find_earliest(future))


def _silent_at_ms(desired: Snapshot, observed: Observed, now_ms: int) -> int:
    beat = desired.beat
    # A time to come is from before the clock was set back: counted from then.
    is_usable = beat is not None and math.isfinite(beat.seen_at(now_ms).age_s)
    received_ms = beat.received_ms if beat is not None and is_usable else 0
    return max(received_ms, observed.serving_since_ms) + SILENT_AFTER_MS


def _life_ends_at_ms(desired: Snapshot) -> int | None:
    limit_s = desired.spec.lifetimes.max_lifetime_s
    if limit_s <= 0:
        return None
    return desired.cluster.created_ms + round(limit_s * 1000)


def _warning_at_ms(desired: Snapshot) -> int | None:
    age_s = find_warning_s(desired.spec.lifetimes)
    if age_s is None or desired.cluster.is_warned:
        return None
    return desired.cluster.created_ms + round(age_s * 1000)


def _add_silence(desired: Snapshot, step: Plan, now_ms: int) -> Plan:
    # A busy scheduler may not answer for long; it is told, and nothing is killed.
    text = "scheduler has not called the gateway for some minutes"
    event = ClusterEvent(
        now_ms, EventType.WARNING, "SchedulerSilent", text, "scheduler"
    )
    return _add(desired, step, event, is_silent=True)


def _add_warning(desired: Snapshot, step: Plan, now_ms: int) -> Plan:
    text = describe_last_end(desired.cluster.created_ms, desired.spec.lifetimes)
    event = ClusterEvent(now_ms, EventType.WARNING, "MaxLifetimeNear", text)
    return _add(desired, step, event, is_warned=True)


def _add(desired: Snapshot, step: Plan, event: ClusterEvent, **flag: bool) -> Plan:
    """Return ``step`` with an event that is told once, as ``flag`` remembers."""
    change = step.change or Change(desired.cluster)
    cluster = replace(change.cluster, **flag)  # type: ignore[arg-type]  # flags alone
    events = (*change.events, event)
    return replace(step, change=Change(cluster, change.workers, events))


def _event(now_ms: int, reason: str, text: str) -> ClusterEvent:
    return ClusterEvent(now_ms, EventType.NORMAL, reason, text)
