"""What is said of workers: a condition, events, and the text of a crash. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.planning.conditions import Fact
from backends.kubernetes.planning.inputs import Desired, Observed, RefusalKind
from backends.kubernetes.planning.reasons import describe_pod, find_reason
from backends.kubernetes.planning.workforce import Workforce
from gateway.domain.cluster import ClusterEvent, EventType
from gateway.domain.names import format_worker_name

# An owner who reads events wants the first few, not a thousand alike.
MAX_EVENTS: Final = 5
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
    parts = [count]
    reasons = []
    refusal = observed.worker_refusal
    if refusal is not None:
        reasons.append(str(refusal.kind))
        parts.append(refusal.text)
    if force.failures:
        reasons.append("WorkersFailing")
        parts.append(f"{force.failures} in a row failed")
    if observed.taken_ordinals:
        reasons.append(str(RefusalKind.NAME_CONFLICT))
        names = _name_taken(desired, observed)
        parts.append(f"others have pods named {names}, which are left alone")
    for pod, number in _group(force):
        reasons.append(find_reason(pod))
        parts.append(f"{number} {describe_pod(pod)}")
    return Fact(holds=False, reason=(*reasons, "Starting")[0], message="; ".join(parts))


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


def _name_taken(desired: Desired, observed: Observed) -> str:
    few = sorted(observed.taken_ordinals)[:_MAX_KINDS]
    return ", ".join(format_worker_name(desired.cluster.name, n) for n in few)


def _group(force: Workforce) -> Iterator[tuple[PodView, int]]:
    """Yield a pod for each way of not running, and how many are like it."""
    pending = [p for p in force.pods if p.state is PodState.PENDING]
    groups: dict[str, list[PodView]] = {}
    for pod in sorted(pending, key=lambda p: (p.cause is None, p.ordinal or 0)):
        groups.setdefault(find_reason(pod), []).append(pod)
    for pods in list(groups.values())[:_MAX_KINDS]:
        yield pods[0], len(pods)


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
