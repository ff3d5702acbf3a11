"""A namespace that may not be looked at: nothing is judged, and it is told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from backends.kubernetes.names import Child
from backends.kubernetes.planning.actions import LookUp, StopCluster
from backends.kubernetes.planning.conditions import ConditionType
from backends.kubernetes.planning.inputs import RefusalKind
from gateway.domain.cluster import ClusterPhase
from tests.support.kube_situations import Situation, an_anchor, refused

TEXT = 'pods is forbidden: User "x" cannot list resource "pods"'
DENIED = {Child.ANCHOR: refused(RefusalKind.FORBIDDEN, TEXT, until=30)}


def blind(situation: Situation) -> Situation:
    return situation.seen(anchor=None, scheduler=None, refusals=DENIED)


def condition(plan, kind):
    return {c.type: c for c in plan.status.conditions}[kind]


@pytest.mark.parametrize(
    ("situation", "kind"),
    [
        pytest.param(Situation(), ConditionType.WORKERS_READY, id="running"),
        pytest.param(
            Situation.starting(), ConditionType.SCHEDULER_READY, id="starting"
        ),
    ],
)
def test_what_is_not_seen_is_left_alone_and_told_once(situation, kind) -> None:
    phase = situation.status.phase

    plan = blind(situation).plan(1)

    told = condition(plan, kind)
    assert (plan.actions, plan.status.phase) == ((), phase)
    assert (told.status, told.reason) == ("False", "Forbidden")
    assert told.message.startswith(f"{TEXT}; an administrator has to")
    assert [(e.reason, e.message) for e in plan.events] == [("Forbidden", told.message)]
    assert plan.requeue_after == timedelta(seconds=29)
    assert situation.saying(conditions=plan.status.conditions).plan(2).events == ()


def test_it_is_not_judged_late_while_it_is_not_seen() -> None:
    plan = blind(Situation.starting()).plan(3000)

    assert plan.status.phase is ClusterPhase.PENDING
    assert plan.requeue_after == timedelta(0)


def test_what_is_still_shown_is_looked_after() -> None:
    plan = Situation().seen(anchor=an_anchor(), refusals=DENIED).plan()

    assert plan.status.phase is ClusterPhase.RUNNING
    assert condition(plan, ConditionType.WORKERS_READY).reason == "AllReady"


def test_another_refusal_is_no_blindness() -> None:
    refusals = {Child.ANCHOR: refused(RefusalKind.QUOTA)}

    plan = Situation().seen(anchor=None, scheduler=None, refusals=refusals).plan()

    assert plan.actions == (LookUp(Child.ANCHOR),)


def test_a_lifetime_ends_all_the_same() -> None:
    situation = blind(Situation())
    lifetimes = {"lifetimes": limited(100)}
    situation.desired |= lifetimes

    before, after = situation.plan(80), situation.plan(100)

    assert before.requeue_after == timedelta(0)
    assert situation.plan(10).requeue_after == timedelta(seconds=20)
    (stop,) = after.actions
    assert isinstance(stop, StopCluster)


def limited(seconds: float):
    return replace(Situation().desired["lifetimes"], max_lifetime_seconds=seconds)
