"""When the Events of a pod are read: late, seldom, and of one pod alone."""

from datetime import timedelta

import pytest

from backends.kubernetes.controller.observer import explain_wait
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.actions import AskWhy
from backends.kubernetes.planning.reasons import describe_pod
from backends.kubernetes.planning.silences import plan_question
from tests.support import kube_pods as pods
from tests.support.kube_pods import NOW
from tests.support.kube_situations import (
    Situation,
    an_anchor,
    later,
    scheduler,
    worker,
)

CREATING = pods.waiting("ContainerCreating")
ASKS = (AskWhy("c-worker-0", "u0"),)


def silent(ordinal: int = 0):
    pod = worker(ordinal, CREATING)
    assert (pod.state, pod.cause) == (PodState.PENDING, None)
    assert pod.scheduled is not None
    return pod


def after(seconds: float):
    scheduled = silent().scheduled
    assert scheduled is not None
    return scheduled + timedelta(seconds=seconds)


def test_a_pod_that_waits_on_its_node_is_asked_about_after_a_while() -> None:
    assert plan_question([silent()], {}, after(3)) == ((), after(4))
    assert plan_question([silent()], {}, after(4)) == (ASKS, None)


def test_it_is_asked_about_again_but_seldom() -> None:
    asked = {"u0": after(4)}

    assert plan_question([silent()], asked, after(18)) == ((), after(19))
    assert plan_question([silent()], asked, after(19)) == (ASKS, None)


def test_one_pod_speaks_for_all() -> None:
    both = [silent(1), silent(0)]

    assert plan_question(both, {}, after(4)) == (ASKS, None)
    assert plan_question(both, {"u0": after(4)}, after(5)) == ((), after(19))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(pods.RUNNING, id="it runs"),
        pytest.param(pods.UNSCHEDULABLE, id="it has no node"),
        pytest.param(pods.waiting("ErrImagePull"), id="its status says why"),
    ],
)
def test_others_are_not_asked_about(status) -> None:
    assert plan_question([worker(0, status)], {}, after(900)) == ((), None)


def test_what_the_events_say_is_told_and_asked_for_again() -> None:
    text = 'FailedMount: MountVolume.SetUp failed for volume "v": secret "s" not found'

    pod = explain_wait(silent(), {"u0": text})

    assert pod.cause is Cause.SETUP
    assert describe_pod(pod).startswith(f"cannot be set up on its node: {text}; check")
    assert plan_question([pod], {"u0": after(4)}, after(19)) == (ASKS, None)
    assert explain_wait(silent(), {"u0": ""}) == silent()
    assert explain_wait(worker(0, pods.RUNNING), {"u0": text}).cause is None


def test_a_scheduler_that_waits_is_asked_about_in_time() -> None:
    pod = scheduler(CREATING)
    situation = Situation.new().seen(anchor=an_anchor(), scheduler=pod)
    assert pod.scheduled is not None
    since_s = (pod.scheduled - NOW).total_seconds()

    assert situation.plan(since_s + 2).requeue_after == timedelta(seconds=2)
    assert situation.plan(since_s + 4).actions == (AskWhy(pod.name, pod.uid),)
    asked = {pod.uid: later(since_s + 4)}
    again = situation.seen(asked=asked).plan(since_s + 5)
    assert (again.actions, again.requeue_after) == ((), timedelta(seconds=14))


def test_a_pod_that_is_about_to_go_is_not_asked_about() -> None:
    situation = Situation().wanting(0).with_workers(silent())

    plan = situation.plan(600)

    assert not any(isinstance(action, AskWhy) for action in plan.actions)
