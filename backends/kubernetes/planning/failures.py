"""Whether a cluster has failed, and what has to be known before that is said.

A verdict is final and takes everything away, so it is never passed on the word
of a cache alone: what a cache does not show is read live first.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from backends.kubernetes.names import Child
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.actions import Action, KeepLogTail, LookUp
from backends.kubernetes.planning.belongings import (
    find_anchor,
    find_refusals,
    find_scheduler,
    is_answering,
    is_calling,
)
from backends.kubernetes.planning.inputs import Desired, Observed, RefusalKind
from backends.kubernetes.planning.reasons import describe_pod, describe_refusal
from gateway.domain.cluster import ClusterPhase, FailureReason

_AGAIN: Final = "create the cluster again"


@dataclass(frozen=True, slots=True)
class Failure:
    """A verdict: why the cluster has failed, and the last lines of who ended."""

    reason: FailureReason
    message: str
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What has to be found out before anything else is decided."""

    actions: tuple[Action, ...]


def find_failure(
    desired: Desired, observed: Observed, now: datetime
) -> Failure | Question | None:
    """Return why the cluster has failed, what to ask first, or ``None``."""
    lost = _find_lost(desired, observed)
    if lost is not None:
        return lost
    scheduler = find_scheduler(desired, observed)
    if scheduler is not None and _has_ended(scheduler):
        return _judge_end(scheduler, observed)
    if desired.cluster.status.phase is not ClusterPhase.PENDING:
        return None
    return _judge_start(desired, observed, now)


def _judge_start(
    desired: Desired, observed: Observed, now: datetime
) -> Failure | Question | None:
    """Return why a cluster that is not Running yet will never be, or ``None``."""
    if desired.refusal is not None:
        text = f"{desired.refusal.field}: {desired.refusal.text}"
        return Failure(FailureReason.SPEC_REFUSED, text)
    for child, refusal in find_refusals(desired, observed).items():
        if refusal.kind.is_final:
            text = f"{child} cannot be created: {describe_refusal(refusal)}"
            return Failure(FailureReason.START_FAILED, text)
    if observed.route_proved and is_calling(desired, observed):
        # It came up while nobody looked.
        return None
    due = find_start_deadline(desired, observed, now)
    return _judge_late(desired, observed) if due <= now else None


def find_start_deadline(
    desired: Desired, observed: Observed, now: datetime
) -> datetime:
    """Return when a cluster that is not Running yet has failed to start.

    It counts from the first look at the cluster, and anew from when this
    controller began to lead: time without any controller does not count.
    """
    lifetimes = desired.lifetimes
    begun = desired.cluster.status.start_time or now
    if observed.led_since is not None:
        begun = max(begun, observed.led_since)
    due = begun + timedelta(seconds=lifetimes.scheduler_start_timeout_seconds)
    scheduler = find_scheduler(desired, observed)
    if scheduler is not None and scheduler.cause is Cause.IMAGE_PULL:
        since = max(begun, scheduler.scheduled or scheduler.created or begun)
        timeout = timedelta(seconds=lifetimes.image_pull_timeout_seconds)
        due = min(due, since + timeout)
    return due


def describe_start(desired: Desired, observed: Observed) -> str:
    """Return what a cluster that is not Running yet waits for."""
    for child, refusal in find_refusals(desired, observed).items():
        return f"{child} is not created yet: {describe_refusal(refusal)}"
    scheduler = find_scheduler(desired, observed)
    if scheduler is None:
        return "scheduler is not created yet"
    if not is_answering(scheduler):
        return f"scheduler {describe_pod(scheduler)}"
    if desired.cluster.status.first_sync_time is None:
        return (
            "scheduler runs but has not called the gateway; its log says why, often "
            "it cannot reach the API"
        )
    return "scheduler does not answer at the public port yet"


def _find_lost(desired: Desired, observed: Observed) -> Failure | Question | None:
    """Return what to make of a child that was there and is not."""
    if not desired.cluster.status.scheduler_pod:
        return None
    anchor = find_anchor(desired, observed)
    if anchor is None and Child.ANCHOR not in observed.absent:
        return Question((LookUp(Child.ANCHOR),))
    if anchor is None or anchor.is_terminating:
        text = (
            "its Service was deleted by someone, and all that it owned with it; "
            f"{_AGAIN}"
        )
        return Failure(FailureReason.ANCHOR_DELETED, text)
    if find_scheduler(desired, observed) is not None:
        return None
    if Child.SCHEDULER not in observed.absent:
        return Question((LookUp(Child.SCHEDULER),))
    return Failure(FailureReason.SCHEDULER_LOST, f"scheduler's pod is gone; {_AGAIN}")


def _has_ended(scheduler: PodView) -> bool:
    return scheduler.state.is_finished or scheduler.state is PodState.TERMINATING


def _judge_end(scheduler: PodView, observed: Observed) -> Failure | Question:
    tail = observed.log_tails.get(scheduler.uid)
    if tail is None:
        return Question((KeepLogTail(scheduler.name, scheduler.uid),))
    is_lost = scheduler.cause is not None and scheduler.cause.is_platform
    reason = FailureReason.SCHEDULER_LOST if is_lost else FailureReason.SCHEDULER_ENDED
    text = f"scheduler {describe_pod(scheduler)}"
    return Failure(reason, f"{text}; {_AGAIN}" if is_lost else text, tail)


def _judge_late(desired: Desired, observed: Observed) -> Failure | Question:
    lifetimes = desired.lifetimes
    timeout = lifetimes.scheduler_start_timeout_seconds
    scheduler = find_scheduler(desired, observed)
    if scheduler is not None and scheduler.cause is Cause.IMAGE_PULL:
        timeout = min(timeout, lifetimes.image_pull_timeout_seconds)
    tail: tuple[str, ...] = ()
    if scheduler is not None and scheduler.state is PodState.RUNNING:
        if scheduler.uid not in observed.log_tails:
            return Question((KeepLogTail(scheduler.name, scheduler.uid),))
        tail = observed.log_tails[scheduler.uid]
    reason = FailureReason.START_DEADLINE_PASSED
    if is_answering(scheduler) and desired.cluster.status.first_sync_time is not None:
        reason = FailureReason.ROUTE_FAILED
    refusals = find_refusals(desired, observed).values()
    if any(refusal.kind is RefusalKind.NAME_CONFLICT for refusal in refusals):
        reason = FailureReason.START_FAILED
    text = f"did not start within {timeout:g} s: {describe_start(desired, observed)}"
    return Failure(reason, text, tail)
