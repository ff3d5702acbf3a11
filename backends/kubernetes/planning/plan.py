"""Plan one step of a ``DaskCluster``: the decision table. Pure: no I/O, no clock."""

from datetime import datetime, timedelta

from backends.kubernetes.planning.actions import Plan, StopCluster
from backends.kubernetes.planning.belongings import is_calling
from backends.kubernetes.planning.blindness import find_blindness, plan_blind
from backends.kubernetes.planning.endings import (
    plan_ended,
    plan_failure,
    plan_stop,
    plan_teardown,
)
from backends.kubernetes.planning.failures import Question, find_failure
from backends.kubernetes.planning.inputs import Desired, Observed
from backends.kubernetes.planning.running import plan_running
from backends.kubernetes.planning.starting import plan_start
from gateway.domain.cluster import ClusterPhase, StopReason


def plan(desired: Desired, observed: Observed, now: datetime) -> Plan:
    """Plan the next step of one cluster: the first rule that applies decides.

    Parameters
    ----------
    desired
        What people want, as of one ``resourceVersion``.
    observed
        What is there. It may be stale.
    now
        By the API server's clock, as nearly as it is known: the times in
        objects are its. Aware, UTC.

    Notes
    -----
    Planning again from the state that an interrupted plan has left leads to
    the same end: children are created by name, the worker set is stored before
    its pods change, a verdict before the teardown that destroys its evidence.
    """
    cluster, now = desired.cluster, now.replace(microsecond=0)
    status = cluster.status
    if status.workers.epoch > observed.epoch:
        # Another controller leads by now; whatever is seen here is of the past.
        return Plan(status)
    if cluster.is_deleting:
        return Plan(status, plan_teardown(desired, observed))
    if status.phase.is_terminal:
        return plan_ended(desired, observed, now)
    if not cluster.spec.active:
        return plan_stop(desired, observed, now)
    return _plan_active(desired, observed, now)


def wants_route_proof(desired: Desired, observed: Observed) -> bool:
    """Return whether it is time to ask the public port for the cluster's CA."""
    cluster = desired.cluster
    return (
        cluster.status.phase is ClusterPhase.PENDING
        and cluster.spec.active
        and is_calling(desired, observed)
    )


def _plan_active(desired: Desired, observed: Observed, now: datetime) -> Plan:
    status = desired.cluster.status
    blindness = find_blindness(desired, observed)
    failure = None if blindness else find_failure(desired, observed, now)
    if isinstance(failure, Question):
        return Plan(status, failure.actions)
    if failure is not None:
        return plan_failure(desired, observed, failure, now)
    life_ends = _find_life_end(desired)
    if life_ends is not None and life_ends <= now:
        seconds = desired.lifetimes.max_lifetime_seconds
        text = f"ran for {seconds:g} s (max_lifetime)"
        return Plan(status, (StopCluster(StopReason.LIFETIME, text),))
    if blindness is not None:
        return plan_blind(desired, blindness, life_ends, now)
    is_up = observed.route_proved and is_calling(desired, observed)
    if status.phase is ClusterPhase.RUNNING or is_up:
        return plan_running(desired, observed, life_ends, now)
    return plan_start(desired, observed, now)


def _find_life_end(desired: Desired) -> datetime | None:
    seconds, created = desired.lifetimes.max_lifetime_seconds, desired.cluster.created
    if seconds <= 0 or created is None:
        return None
    return created + timedelta(seconds=seconds)
