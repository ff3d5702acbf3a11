"""What is said of workers: a condition, events, and the text of a crash. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from backends.kubernetes.crd.values import ClusterStatus
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.planning.actions import build_event
from backends.kubernetes.planning.conditions import Fact, is_progress
from backends.kubernetes.planning.inputs import Desired, Observed, RefusalKind
from backends.kubernetes.planning.reasons import (
    describe_pod,
    describe_refusal,
    find_reason,
)
from backends.kubernetes.planning.workforce import Workforce
from gateway.domain.cluster import ClusterEvent, EventType
from gateway.domain.names import format_worker_name

# An owner who reads events wants the first few, not a thousand alike.
MAX_EVENTS: Final = 5
# By events of each worker, or not worth one: it passes.
_TOLD_ELSEWHERE: Final = frozenset(
    {"WorkersFailing", RefusalKind.NAME_BUSY, RefusalKind.UNAVAILABLE}
)
_MAX_KINDS: Final = 3


def tell_workers(desired: Desired, observed: Observed, force: Workforce) -> Fact:
    """Return the condition of the workers: n of m, and why not all.

    What people can do something about comes first: a refusal, then failures,
    then what each pod waits for.
    """
    ready, wanted = force.status.ready, force.status.wanted
    count = f"{ready} of {wanted} workers"
    if ready >= wanted:
        reason = "Draining" if ready > wanted else "AllReady"
        return Fact(holds=True, reason=reason, message=count)
    words = [
        *_tell_refusals(desired, observed),
        *_tell_pods(force, has_cause=True),
        *_tell_failures(force),
        *_tell_pods(force, has_cause=False),
    ]
    reason = words[0][0] if words else "Starting"
    message = "; ".join([count, *(text for _, text in words)])
    return Fact(holds=False, reason=reason, message=message)


def tell_crash(force: Workforce) -> str:
    """Return why a cluster has failed by its workers."""
    text = f"{force.failures} workers in a row failed before any was connected"
    if not force.failed:
        return text
    last = force.failed[-1]
    return f"{text}; the last, {last.name}, {_describe_end(last, force)}"


def tell_events(force: Workforce, now: datetime) -> tuple[ClusterEvent, ...]:
    """Return the events of workers that left without being asked to."""
    unasked = [
        p for p in force.left if p in force.failed or p.state is not PodState.SUCCEEDED
    ]
    events = [_build_event(pod, force, now) for pod in unasked[:MAX_EVENTS]]
    more = len(unasked) - MAX_EVENTS
    if more > 0:
        text = f"{more} more workers left unasked"
        events.append(
            ClusterEvent(_to_ms(now), EventType.WARNING, "WorkerFailed", text, "worker")
        )
    return tuple(events)


def tell_obstacles(
    before: ClusterStatus, after: ClusterStatus, now: datetime
) -> tuple[ClusterEvent, ...]:
    """Return an event for each condition that has come to say what is in the way.

    Only what somebody can do something about: not what passes by itself, and not
    what other events tell. Whole statuses are compared, so a plan that is made
    again tells it again until its status is stored.
    """
    known = {(c.type, c.reason) for c in before.conditions if c.status != "True"}
    told: dict[str, ClusterEvent] = {}
    for c in after.conditions:
        if c.status == "True" or (c.type, c.reason) in known or is_progress(c.reason):
            continue
        if c.reason not in _TOLD_ELSEWHERE and c.message:
            event = build_event(EventType.WARNING, c.reason, c.message, now)
            told.setdefault(c.reason, event)
    return tuple(told.values())


def _tell_refusals(desired: Desired, observed: Observed) -> Iterator[tuple[str, str]]:
    if observed.worker_refusal is not None:
        refusal = observed.worker_refusal
        yield str(refusal.kind), describe_refusal(refusal)
    few = sorted(observed.taken_ordinals)[:_MAX_KINDS]
    names = ", ".join(format_worker_name(desired.cluster.name, n) for n in few)
    if names:
        text = f"others have pods named {names}, which are left alone"
        yield str(RefusalKind.NAME_CONFLICT), text


def _tell_failures(force: Workforce) -> Iterator[tuple[str, str]]:
    if force.failures:
        yield "WorkersFailing", f"failures in a row: {force.failures}"


def _tell_pods(force: Workforce, *, has_cause: bool) -> Iterator[tuple[str, str]]:
    """Yield each way of not running, how many do so, and one of them in words."""
    pending = [p for p in force.pods if p.state is PodState.PENDING]
    groups: dict[str, list[PodView]] = {}
    for pod in pending:
        if (pod.cause is not None) is has_cause:
            groups.setdefault(find_reason(pod), []).append(pod)
    for reason, pods in list(groups.items())[:_MAX_KINDS]:
        yield reason, f"{len(pods)} {reason} ({describe_pod(pods[0])})"


def _describe_end(pod: PodView, force: Workforce) -> str:
    if pod.name in force.late:
        return f"did not start in time: {describe_pod(pod)}"
    if pod.state is PodState.SUCCEEDED:
        return f"{describe_pod(pod)} at once, though it was still wanted"
    return describe_pod(pod)


def _build_event(pod: PodView, force: Workforce, now: datetime) -> ClusterEvent:
    is_lost = pod not in force.failed
    return ClusterEvent(
        _to_ms(now),
        EventType.WARNING,
        "WorkerLost" if is_lost else "WorkerFailed",
        f"worker {_describe_end(pod, force)}",
        "worker",
        pod.name,
    )


def _to_ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
