"""The workers of a running cluster: what bounds their plan, and its verdicts. Pure.

Which pods come and go is decided in ``workers``; here, what holds creates back
and when crashes are too many. What to say of it all stands in ``tellings``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from backends.kubernetes.crd.values import WorkersStatus
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.observed.worker_set import WorkerSet, format_worker_set
from backends.kubernetes.planning.belongings import find_workers
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.workers import (
    Rules,
    WorkerAction,
    plan_workers,
    read_worker_set,
)

# A worker that ended well sooner than this, and is still wanted, has done nothing.
SHORT_LIFE: Final = timedelta(seconds=30)
# So long after a failure the next one is the first of a row again.
FORGET: Final = timedelta(minutes=5)
# While others run that may yet connect, the verdict waits so long.
BENEFIT: Final = timedelta(seconds=30)
# Failed workers of a cluster that has had some are replaced at once as long as
# they are few, then with growing delays up to this.
_MAX_DELAY_S: Final = 60
_LEAST_FREE: Final = 5
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Workforce:
    """What to do about workers, and what was found out about them.

    Parameters
    ----------
    status
        For ``status.workers``.
    actions
        To carry out once the status is stored.
    pods
        The cluster's worker pods.
    left
        Of them, those that leave the set for another reason than surplus.
    failed
        Of those, the ones that count as failed.
    late
        Of those, the ones that did not start in time.
    failures
        In a row, these included.
    is_crashing
        Whether the cluster has failed by its workers.
    due
        When time alone changes any of it.
    """

    status: WorkersStatus
    actions: tuple[WorkerAction, ...]
    pods: tuple[PodView, ...]
    left: tuple[PodView, ...] = ()
    failed: tuple[PodView, ...] = ()
    late: frozenset[str] = frozenset()
    failures: int = 0
    is_crashing: bool = False
    due: datetime | None = None


def plan_workforce(desired: Desired, observed: Observed, now: datetime) -> Workforce:
    """Plan the workers of a running cluster."""
    before, wanted = desired.cluster.status.workers, desired.cluster.wanted_workers
    pods = find_workers(desired, observed)
    stored = read_worker_set(before, pods)
    dues = {pod.name: _find_due(pod, desired) for pod in pods}
    late = frozenset(name for name, due in dues.items() if due <= now)
    failed = _find_failed(pods, stored, late, wanted)
    failures = _count_ongoing(before, now) + len(failed)
    last = now if failed else before.last_failure_time or now
    held_until = _find_hold(desired, observed, failures, last)
    rules = Rules(
        wanted=wanted,
        epoch=observed.epoch,
        may_create=held_until <= now,
        late=late,
        taken=observed.taken_ordinals,
        known_tails=frozenset(observed.log_tails),
    )
    step = plan_workers(stored, pods, rules)
    status = msgspec.structs.replace(
        before,
        wanted=wanted,
        ready=sum(p.state is PodState.RUNNING for p in pods),
        starting=sum(p.state is PodState.PENDING for p in pods),
    )
    if failed:
        status = msgspec.structs.replace(
            status, failures=failures, last_failure_time=now
        )
    if step.actions or step.worker_set != stored:
        status = format_worker_set(step.worker_set, status)
    verdict_at = _find_verdict(desired, pods, failures, last)
    instants = (*dues.values(), held_until, verdict_at)
    return Workforce(
        status=status,
        actions=step.actions,
        pods=pods,
        left=step.left,
        failed=failed,
        late=late,
        failures=failures,
        is_crashing=verdict_at <= now,
        due=min((at for at in instants if now < at < _NEVER), default=None),
    )


def _find_due(pod: PodView, desired: Desired) -> datetime:
    """Return when a pod that has its node is late; one that waits for it never is."""
    if pod.state is not PodState.PENDING or pod.scheduled is None:
        return _NEVER
    lifetimes = desired.lifetimes
    seconds = lifetimes.worker_start_timeout_seconds
    if pod.cause is Cause.IMAGE_PULL:
        seconds = min(seconds, lifetimes.image_pull_timeout_seconds)
    return pod.scheduled + timedelta(seconds=seconds)


def _find_failed(
    pods: Sequence[PodView], stored: WorkerSet, late: frozenset[str], wanted: int
) -> tuple[PodView, ...]:
    live = sum(p.state.is_live and p.name not in late for p in pods)
    return tuple(
        p
        for p in pods
        if p.ordinal in stored.members
        and (
            p.name in late
            or _is_at_fault(p)
            or (live < wanted and _has_done_nothing(p))
        )
    )


def _is_at_fault(pod: PodView) -> bool:
    if pod.state is not PodState.FAILED:
        return False
    return pod.cause is None or not pod.cause.is_platform


def _has_done_nothing(pod: PodView) -> bool:
    if pod.state is not PodState.SUCCEEDED or None in (pod.started, pod.finished):
        return False
    return (
        pod.started is not None
        and pod.finished is not None
        and pod.finished - pod.started < SHORT_LIFE
    )


def _count_ongoing(before: WorkersStatus, now: datetime) -> int:
    last = before.last_failure_time
    return 0 if last is None or now - last > FORGET else before.failures


def _has_had_workers(desired: Desired, pods: Sequence[PodView], last: datetime) -> bool:
    """Return whether some worker is known, or must be thought, to have connected.

    One that has run for longer than it may take to connect has done so, whoever
    does not know it.
    """
    if desired.cluster.status.first_worker_time is not None:
        return True
    longest = timedelta(seconds=desired.lifetimes.worker_start_timeout_seconds)
    return any(
        p.state.may_run and p.started is not None and p.started + longest < last
        for p in pods
    )


def _find_hold(
    desired: Desired, observed: Observed, failures: int, last: datetime
) -> datetime:
    """Return until when no worker is created."""
    until = datetime.min.replace(tzinfo=UTC)
    if observed.worker_refusal is not None:
        until = observed.worker_refusal.retry_at
    pods = find_workers(desired, observed)
    if not _has_had_workers(desired, pods, last):
        limit = desired.lifetimes.worker_start_failure_limit
        return _NEVER if failures >= limit else until
    excess = failures - max(_LEAST_FREE, desired.cluster.wanted_workers)
    if excess > 0:
        delay_s = min(_MAX_DELAY_S, 2 ** min(excess, _MAX_DELAY_S))
        until = max(until, last + timedelta(seconds=delay_s))
    return until


def _find_verdict(
    desired: Desired, pods: Sequence[PodView], failures: int, last: datetime
) -> datetime:
    """Return from when on crashing workers make the cluster fail.

    One that has had workers may hold results, and goes on with what it has.
    Those that run now may yet connect.
    """
    limit = desired.lifetimes.worker_start_failure_limit
    if failures < limit or _has_had_workers(desired, pods, last):
        return _NEVER
    return last + BENEFIT if any(p.state.may_run for p in pods) else last
