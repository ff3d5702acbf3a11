"""A cluster that runs: its workers, and what was lost of the rest. Pure."""

from datetime import datetime, timedelta

from backends.kubernetes.planning.actions import (
    DeletePod,
    KeepLogTail,
    Plan,
    build_event,
)
from backends.kubernetes.planning.belongings import find_missing
from backends.kubernetes.planning.conditions import ConditionType
from backends.kubernetes.planning.endings import plan_failure
from backends.kubernetes.planning.failures import Failure
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.silences import plan_question
from backends.kubernetes.planning.starting import plan_creates, with_scheduler
from backends.kubernetes.planning.status import build_status, tell_running
from backends.kubernetes.planning.tellings import (
    tell_crash,
    tell_events,
    tell_obstacles,
    tell_workers,
)
from backends.kubernetes.planning.workforce import Workforce, plan_workforce
from gateway.domain.cluster import (
    ClusterEvent,
    ClusterPhase,
    EventType,
    FailureReason,
)


def plan_running(
    desired: Desired, observed: Observed, life_ends: datetime | None, now: datetime
) -> Plan:
    """Plan for a cluster that runs, or is about to.

    Parameters
    ----------
    life_ends
        When it has to stop in any case.
    """
    facts = tell_running(desired, observed)
    if desired.refusal is not None:
        # It is mended by another edit; what runs is left alone until then.
        status = build_status(desired, ClusterPhase.RUNNING, facts, now=now)
        told = tell_obstacles(desired.cluster.status, status, now)
        return Plan(status, requeue_after=_until(now, life_ends), events=told)
    force = plan_workforce(desired, observed, now)
    if force.is_crashing:
        return _plan_crash(desired, observed, force, now)
    going = {action.name for action in force.actions if isinstance(action, DeletePod)}
    staying = (pod for pod in force.pods if pod.name not in going)
    questions, ask_at = plan_question(staying, observed.asked, now)
    missing = find_missing(desired, observed)
    creates, again = plan_creates(desired, observed, missing, now)
    facts = {
        **facts,
        ConditionType.WORKERS_READY: tell_workers(desired, observed, force),
    }
    status = build_status(
        desired, ClusterPhase.RUNNING, facts, now=now, workers=force.status
    )
    status = with_scheduler(status, desired.cluster)
    retry = None if again is None else now + again
    return Plan(
        status,
        (*creates, *force.actions, *questions),
        stores_first=bool(force.actions),
        requeue_after=_until(now, force.due, life_ends, retry, ask_at),
        events=(
            *_tell_change(desired, now),
            *tell_events(force, now),
            *tell_obstacles(desired.cluster.status, status, now),
        ),
    )


def _plan_crash(
    desired: Desired, observed: Observed, force: Workforce, now: datetime
) -> Plan:
    tail: tuple[str, ...] = ()
    if force.failed:
        last = force.failed[-1]
        known = observed.log_tails.get(last.uid)
        if known is None and last.name not in force.late:
            return Plan(desired.cluster.status, (KeepLogTail(last.name, last.uid),))
        tail = known or ()
    failure = Failure(FailureReason.WORKERS_CRASHING, tell_crash(force), tail)
    return plan_failure(desired, observed, failure, now)


def _until(now: datetime, *instants: datetime | None) -> timedelta | None:
    first = min((at for at in instants if at is not None), default=None)
    return None if first is None else max(timedelta(0), first - now)


def _tell_change(desired: Desired, now: datetime) -> tuple[ClusterEvent, ...]:
    if desired.cluster.status.phase is ClusterPhase.RUNNING:
        return ()
    text = "cluster answers at the public port"
    return (build_event(EventType.NORMAL, "Running", text, now),)
