"""Whole lives of a cluster under lag, lost rounds and everything people do to it.

Whatever happens: the last phase stays; no verdict is passed on a cache's word; a
cluster that ended leaves nothing behind; one that is let live comes to run with
all that is wanted, and then asks for nothing more.
"""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.names import format_scheduler_name
from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.planning.conditions import TYPES
from gateway.domain.cluster import ClusterPhase, FailureReason, StopReason
from tests.support.kube_pods import (
    EVICTED,
    NOW,
    RUNNING,
    UNSCHEDULABLE,
    container,
    ended,
    started,
    waiting,
)
from tests.support.kube_world import ALL, READY, Controller, FakeServer
from tests.support.machines import machine_settings

SCHEDULER = format_scheduler_name("c")
TURNS = st.sampled_from([0, 1, 2, 3, 5, 8, 12, 20])
NEWS = st.sampled_from([0, 1, 2, ALL])
# Events of pods, of the cluster and of its anchor received; turns taken.
WORK = st.tuples(NEWS, NEWS, NEWS, TURNS) | st.just((ALL, ALL, ALL, 20))
LATE = st.sampled_from([0, ALL])
BOUNDS = Lifetimes(scheduler_start_timeout_seconds=300, retention_seconds=3600)
ENDS = [
    started(
        {"terminated": {"exitCode": 3}},
        containerStatuses=[container(ended(3), "dask-scheduler")],
    ),
    EVICTED,
]
LOST = {
    FailureReason.SCHEDULER_LOST,
    FailureReason.SCHEDULER_ENDED,
    FailureReason.ANCHOR_DELETED,
}


class Lives(RuleBasedStateMachine):
    use_overlay = False

    def __init__(self):
        super().__init__()
        self.server = FakeServer()
        self.epoch = 0
        self.controller = self.new_controller()
        self.now = NOW
        self.harms = set()
        self.is_gentle = False

    def new_controller(self):
        self.epoch += 1
        return Controller(
            self.server,
            epoch=self.epoch,
            lifetimes=BOUNDS,
            use_overlay=self.use_overlay,
        )

    @property
    def exists(self):
        return self.server.clusters[-1] is not None

    @property
    def status(self):
        return self.server.cluster.status

    def works(self, pods, versions, services, turns):
        self.controller.receive(pods, versions, services=services)
        self.controller.now = self.now
        for _ in range(turns):
            self.controller.advance()

    @initialize(is_gentle=st.booleans(), work=WORK)
    def begins(self, is_gentle, work):
        # Where nothing is harmed, whatever is stated of a loss is false.
        self.is_gentle = is_gentle
        self.works(*work)

    @rule(work=WORK)
    def controller_works(self, work):
        self.works(*work)

    @rule(pods=LATE, services=LATE)
    def of_some_kinds_nothing_is_heard(self, pods, services):
        self.works(pods, ALL, services, 12)

    @rule(work=WORK)
    def round_is_lost(self, work):
        self.controller.lose_round()
        self.works(*work)

    @rule(work=WORK)
    def controller_restarts(self, work):
        self.controller = self.new_controller()
        self.works(*work)

    @precondition(lambda self: SCHEDULER in self.server.pods)
    @rule(
        status=st.sampled_from(
            [READY, UNSCHEDULABLE, waiting("ErrImagePull", name="dask-scheduler")]
        )
    )
    def scheduler_changes(self, status):
        state = parse_pod(self.server.pods[SCHEDULER]).state
        if state is PodState.PENDING:
            self.server.set_status(SCHEDULER, status)

    @precondition(lambda self: self.exists)
    @rule()
    def scheduler_calls(self):
        if self.server.cluster.status.first_sync_time is None:
            self.server.report(first_sync_time=self.now)
        self.controller.route_proved = True

    @precondition(lambda self: self.exists)
    @rule(replicas=st.integers(0, 3))
    def somebody_scales(self, replicas):
        self.server.scale(replicas)

    @precondition(lambda self: self.exists)
    @rule()
    def somebody_stops_it(self):
        self.server.stop(StopReason.USER, "enough")

    @precondition(lambda self: not self.is_gentle and SCHEDULER in self.server.pods)
    @rule(status=st.sampled_from(ENDS))
    def scheduler_ends(self, status):
        self.harms.add("scheduler")
        if parse_pod(self.server.pods[SCHEDULER]).state.is_live:
            self.server.set_status(SCHEDULER, status)

    @precondition(lambda self: not self.is_gentle and SCHEDULER in self.server.pods)
    @rule()
    def scheduler_is_deleted(self):
        self.harms.add("scheduler")
        self.server.remove(SCHEDULER)

    @precondition(lambda self: not self.is_gentle and self.server.services[-1])
    @rule()
    def anchor_is_deleted(self):
        self.harms.add("anchor")
        self.server.delete_service(self.server.services[-1].uid)

    @rule()
    def garbage_is_collected(self):
        self.server.collect()

    @rule(seconds=st.sampled_from([1, 60, 200]))
    def time_passes(self, seconds):
        self.now += timedelta(seconds=seconds)

    @rule()
    def workers_start(self):
        for pod in self.server.views():
            if pod.state is PodState.PENDING:
                self.server.set_status(pod.name, RUNNING)

    @invariant()
    def the_last_phase_stays(self):
        phases = [c.status.phase for c in self.server.clusters if c is not None]
        for before, after in pairwise(phases):
            assert after is before or not before.is_terminal

    @invariant()
    def a_loss_is_only_stated_where_there_was_one(self):
        if self.exists and self.status.reason in LOST:
            assert self.harms
        if self.exists and self.status.reason == FailureReason.ANCHOR_DELETED:
            assert "anchor" in self.harms

    @invariant()
    def a_running_cluster_has_been_called_by_its_scheduler(self):
        if self.exists and self.status.phase is ClusterPhase.RUNNING:
            assert self.status.first_sync_time is not None
            assert self.status.scheduler_pod

    @invariant()
    def an_end_has_a_time_and_a_reason(self):
        if self.exists and self.status.phase.is_terminal:
            assert self.status.completion_time is not None
            assert self.status.reason
        if self.exists and self.status.phase is ClusterPhase.FAILED:
            assert self.status.message

    @invariant()
    def conditions_are_in_order_and_complete(self):
        if self.exists and self.status.start_time and not self.status.completion_time:
            assert tuple(c.type for c in self.status.conditions) == TYPES

    def teardown(self):
        self.settle(lets_live=not self.harms)
        phase = self.status.phase
        if self.server.cluster.spec.active and not phase.is_terminal:
            assert phase is ClusterPhase.RUNNING
            live = [p for p in self.server.views() if p.state.is_live]
            assert len(live) >= self.server.wanted
            self.controller.run()
            assert self.controller.plans[-1].actions == ()
            return
        assert phase.is_terminal
        assert self.server.services[-1] is None
        self.now += timedelta(seconds=BOUNDS.retention_seconds + 1)
        self.works(ALL, ALL, ALL, 20)
        assert not self.exists
        assert self.server.pods == {}

    def settle(self, *, lets_live):
        for _ in range(30):
            if lets_live and SCHEDULER in self.server.pods:
                self.scheduler_changes(READY)
            if lets_live and self.server.cluster.status.scheduler_pod:
                self.scheduler_calls()
            if not lets_live:
                self.time_passes(60)
            self.workers_start()
            self.garbage_is_collected()
            self.time_passes(1)
            self.works(ALL, ALL, ALL, 0)
            self.controller.run()


class LivesWithOverlay(Lives):
    use_overlay = True


# At night one machine is a test of many minutes.
pytestmark = pytest.mark.timeout(7200)

TestLives = Lives.TestCase
TestLivesWithOverlay = LivesWithOverlay.TestCase
TestLivesWithOverlay.settings = machine_settings(30)
TestLives.settings = machine_settings(30)
