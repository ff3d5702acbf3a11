"""The five conditions, when they changed, and which changes can wait. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from backends.kubernetes.crd.values import ClusterStatus, Condition

# A status that is not urgent may be written so much later; by then the next
# change has often made it needless.
SETTLE: Final = timedelta(seconds=2)

MAX_MESSAGE: Final = 1024


class ConditionType(StrEnum):
    """What a condition is about, in the order in which a cluster gets there."""

    SPEC_VALID = "SpecValid"
    CREDENTIALS_READY = "CredentialsReady"
    SCHEDULER_READY = "SchedulerReady"
    ROUTES_READY = "RoutesReady"
    WORKERS_READY = "WorkersReady"


TYPES: Final = tuple(ConditionType)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a condition says now; ``reason`` is one CamelCase word."""

    holds: bool
    reason: str
    message: str = ""


Facts = Mapping[ConditionType, Fact]


def build_conditions(
    before: tuple[Condition, ...], facts: Facts, *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions that ``facts`` make, in the order of `TYPES`.

    A condition without a fact stays as it was. The time of transition changes
    only where the status does.
    """
    old = {condition.type: condition for condition in before}
    new = []
    for kind in TYPES:
        was, fact = old.get(kind), facts.get(kind)
        if fact is not None:
            was = _build_condition(was, kind, fact, generation, now)
        if was is not None:
            new.append(was)
    return tuple(new)


def find_blocker(conditions: tuple[Condition, ...]) -> Condition | None:
    """Return the first condition that does not hold."""
    return next((c for c in conditions if c.status != "True"), None)


def is_urgent(before: ClusterStatus, after: ClusterStatus) -> bool:
    """Return whether ``after`` is worth a write of its own at once.

    Numbers of workers, words of messages and conditions that come to hold are
    not: users see them `SETTLE` later. What went wrong is.
    """
    return _weigh(before, before) != _weigh(before, after)


def is_progress(reason: str) -> bool:
    """Return whether a condition that does not hold yet only takes its time."""
    return reason.startswith(("Waiting", "Starting", "Creating"))


def _weigh(before: ClusterStatus, status: ClusterStatus) -> object:
    held = {c.type for c in before.conditions if c.status == "True"}
    broken = frozenset(
        (c.type, c.reason)
        for c in status.conditions
        if c.status != "True" and (c.type in held or not is_progress(c.reason))
    )
    workers = msgspec.structs.replace(status.workers, ready=0, starting=0, wanted=0)
    return (
        status.phase,
        workers,
        status.scheduler_pod,
        status.start_time is None,
        status.completion_time,
        broken,
    )


def _build_condition(
    was: Condition | None,
    kind: ConditionType,
    fact: Fact,
    generation: int,
    now: datetime,
) -> Condition:
    status = "True" if fact.holds else "False"
    since = was.last_transition_time if was and was.status == status else now
    return Condition(
        type=str(kind),
        status=status,
        reason=fact.reason,
        message=fact.message[:MAX_MESSAGE],
        last_transition_time=since,
        observed_generation=generation,
    )
