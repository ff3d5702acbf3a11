"""The status that a plan leads to, and what its conditions say. Pure."""

from datetime import datetime

import msgspec

from backends.kubernetes.crd.values import ClusterStatus, WorkersStatus
from backends.kubernetes.names import Child, format_host
from backends.kubernetes.planning.belongings import (
    find_missing,
    find_refusals,
    find_scheduler,
    is_answering,
)
from backends.kubernetes.planning.conditions import (
    ConditionType,
    Fact,
    Facts,
    build_conditions,
    find_blocker,
)
from backends.kubernetes.planning.failures import describe_start
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.reasons import (
    describe_pod,
    describe_refusal,
    find_reason,
)
from gateway.domain.cluster import ClusterPhase


def build_status(
    desired: Desired,
    phase: ClusterPhase,
    facts: Facts,
    *,
    now: datetime,
    workers: WorkersStatus | None = None,
) -> ClusterStatus:
    """Return the status of a cluster in ``phase``; reason and message of its blocker.

    Parameters
    ----------
    facts
        What the conditions say; those without one stay.
    workers
        ``None`` leaves them as they were.
    """
    cluster = desired.cluster
    before = cluster.status
    conditions = build_conditions(
        before.conditions, facts, generation=cluster.generation, now=now
    )
    blocker = find_blocker(conditions)
    return msgspec.structs.replace(
        before,
        phase=phase,
        reason=blocker.reason if blocker else "",
        message=blocker.message if blocker else "",
        workers=before.workers if workers is None else workers,
        conditions=conditions,
        host=format_host(cluster.name, cluster.spec.target_namespace),
        start_time=before.start_time or now,
        selector=desired.selector,
        observed_generation=cluster.generation,
    )


def tell_start(desired: Desired, observed: Observed) -> Facts:
    """Return what the conditions of a cluster that is not Running yet say."""
    scheduler = find_scheduler(desired, observed)
    waits = describe_start(desired, observed)
    facts = {
        ConditionType.SPEC_VALID: Fact(holds=True, reason="Accepted"),
        ConditionType.CREDENTIALS_READY: _tell_credentials(desired, observed),
        ConditionType.SCHEDULER_READY: _tell_scheduler(desired, observed),
    }
    if not is_answering(scheduler):
        facts[ConditionType.ROUTES_READY] = Fact(
            holds=False, reason="WaitingForScheduler"
        )
    elif desired.cluster.status.first_sync_time is None:
        facts[ConditionType.ROUTES_READY] = Fact(
            holds=False, reason="WaitingForSync", message=waits
        )
    else:
        facts[ConditionType.ROUTES_READY] = _tell_routes(desired, observed, waits)
    facts[ConditionType.WORKERS_READY] = Fact(holds=False, reason="WaitingForScheduler")
    return facts


def tell_running(desired: Desired, observed: Observed) -> Facts:
    """Return what the conditions of a running cluster say, but for its workers."""
    refusal = desired.refusal
    valid = Fact(holds=True, reason="Accepted")
    if refusal is not None:
        text = f"{refusal.field}: {refusal.text}"
        valid = Fact(holds=False, reason="SpecRefused", message=text)
    return {
        ConditionType.SPEC_VALID: valid,
        ConditionType.CREDENTIALS_READY: Fact(holds=True, reason="Mirrored"),
        ConditionType.SCHEDULER_READY: _tell_scheduler(desired, observed),
        ConditionType.ROUTES_READY: Fact(holds=True, reason="Proved"),
    }


def tell_end(reason: str, message: str = "") -> Facts:
    """Return what the conditions of a cluster that has ended say."""
    ended = Fact(holds=False, reason=str(reason), message=message)
    facts = {
        ConditionType.SCHEDULER_READY: ended,
        ConditionType.ROUTES_READY: ended,
        ConditionType.WORKERS_READY: ended,
    }
    if reason == "SpecRefused":
        facts[ConditionType.SPEC_VALID] = ended
    return facts


def _tell_credentials(desired: Desired, observed: Observed) -> Fact:
    if Child.CREDENTIALS not in find_missing(desired, observed):
        return Fact(holds=True, reason="Mirrored")
    for child, refusal in find_refusals(desired, observed).items():
        if child in (Child.ANCHOR, Child.CREDENTIALS):
            text = describe_refusal(refusal)
            return Fact(holds=False, reason=str(refusal.kind), message=text)
    return Fact(holds=False, reason="Creating")


def _tell_scheduler(desired: Desired, observed: Observed) -> Fact:
    scheduler = find_scheduler(desired, observed)
    if is_answering(scheduler):
        return Fact(holds=True, reason="Ready")
    if scheduler is not None:
        reason = find_reason(scheduler)
        if reason == "Running":
            reason = "Starting"
        return Fact(
            holds=False, reason=reason, message=f"scheduler {describe_pod(scheduler)}"
        )
    for refusal in find_refusals(desired, observed).values():
        return Fact(
            holds=False,
            reason=str(refusal.kind),
            message=describe_start(desired, observed),
        )
    return Fact(holds=False, reason="Creating")


def _tell_routes(desired: Desired, observed: Observed, waits: str) -> Fact:
    for refusal in find_refusals(desired, observed).values():
        text = describe_refusal(refusal)
        return Fact(holds=False, reason=str(refusal.kind), message=text)
    return Fact(holds=False, reason="WaitingForRoute", message=waits)
