"""No worker too many, none killed: against lag, crashes and a second controller.

Bound: live pods <= H + E. H is the most workers wanted since the members and the
live strays last fitted into what was wanted. E counts live strays whose ordinal
left the set when the leader's view showed an earlier pod of that name.

Why: a leader makes pods of members only; the set grows only up to what is wanted,
with the running strays in view counted; an ordinal leaves only when its pod is in
view; a pending stray that cannot be deleted ends the round before a create. E is
what no view shows in time: a pod that a stale controller makes after the ordinal
left, or one that was made twice because someone else had removed the first one
before the cache showed it.

A controller of an older epoch stores nothing once a newer one has stored. Until
then it may: its view of the cluster is then the newest, and it is one more lagging
leader.
"""

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from backends.kubernetes.observed.verdicts import PodState
from tests.support.kube_pods import (
    EVICTED,
    FAILED,
    LOST,
    RUNNING,
    SUCCEEDED,
    WAITING,
)
from tests.support.kube_world import (
    ALL,
    Controller,
    Created,
    Deleted,
    Stored,
    a_running_server,
)
from tests.support.machines import machine_settings

INDEX = st.integers(0, 7)
WANTED = st.integers(0, 4)
TURNS = st.sampled_from([0, 1, 2, 3, 5, 20])
NEWS = st.sampled_from([0, 1, 2, ALL])
# What the leader does next: pod events and versions received, turns taken.
WORK = st.tuples(NEWS, NEWS, TURNS) | st.just((ALL, ALL, 20))
STATUS = st.sampled_from([RUNNING, SUCCEEDED, FAILED, WAITING, EVICTED, LOST])


class Workers(RuleBasedStateMachine):
    use_overlay = False

    def __init__(self):
        super().__init__()
        self.server = a_running_server()
        self.epoch = 0
        self.leader = self.new_controller()
        self.stale = None
        self.most_wanted = 0

    def new_controller(self):
        self.epoch += 1
        return Controller(self.server, epoch=self.epoch, use_overlay=self.use_overlay)

    def leader_works(self, pods, versions, turns):
        self.leader.receive(pods, versions)
        self.work(self.leader, turns)

    def work(self, controller, turns):
        for _ in range(turns):
            controller.advance()
            self.live_pods_are_bounded()

    @initialize(wanted=WANTED, work=WORK)
    def workers_are_wanted(self, wanted, work):
        self.wanted_changes(wanted, work)

    @rule(wanted=WANTED, work=WORK)
    def wanted_changes(self, wanted, work):
        self.server.scale(wanted)
        self.leader_works(*work)

    @rule(work=WORK)
    def round_is_lost_with_a_request_or_its_reply(self, work):
        self.leader.lose_round()
        self.leader_works(*work)

    @rule(work=WORK)
    def leader_crashes_and_restarts(self, work):
        self.leader.lose_round()
        self.leader = self.new_controller()
        self.leader_works(*work)

    @rule(work=WORK)
    def another_leader_takes_over(self, work):
        self.stale = self.leader
        self.leader = self.new_controller()
        self.leader_works(*work)

    @precondition(lambda self: self.stale)
    @rule(news=st.tuples(NEWS, NEWS), turns=TURNS, work=WORK)
    def stale_controller_works(self, news, turns, work):
        self.stale.receive(*news)
        self.work(self.stale, turns)
        self.leader_works(*work)

    @precondition(lambda self: self.server.live())
    @rule(index=INDEX, status=STATUS, work=WORK)
    def kubelet_reports(self, index, status, work):
        pod = pick(self.server.live(), index)
        if not (pod.state.may_run and status is WAITING):
            self.server.set_status(pod.name, status)
        self.leader_works(*work)

    @precondition(lambda self: self.server.views())
    @rule(index=INDEX, work=WORK)
    def pod_is_deleted_by_hand(self, index, work):
        self.server.terminate(pick(self.server.views(), index).name)
        self.leader_works(*work)

    @precondition(lambda self: self.server.views())
    @rule(index=INDEX, work=WORK)
    def pod_goes(self, index, work):
        self.server.remove(pick(self.server.views(), index).name)
        self.leader_works(*work)

    @precondition(lambda self: len(self.running()) > self.server.wanted)
    @rule(index=INDEX, work=WORK)
    def plugin_retires_one(self, index, work):
        self.server.set_status(pick(self.running(), index).name, SUCCEEDED)
        self.leader_works(*work)

    def running(self):
        return [p for p in self.server.views() if p.state is PodState.RUNNING]

    def logged(self, kind):
        return [entry for entry in self.server.audit if isinstance(entry, kind)]

    @invariant()
    def live_pods_are_bounded(self):
        members = self.server.worker_set.members
        left = {n: uid for e in self.logged(Stored) for n, uid in e.left.items()}
        foreseen = {
            pod.ordinal
            for pod in self.server.live()
            if pod.ordinal in members or left[pod.ordinal] == pod.uid
        }
        self.most_wanted = max(self.most_wanted, self.server.wanted)
        assert len(foreseen) <= self.most_wanted
        if len(foreseen | members) <= self.server.wanted:
            self.most_wanted = self.server.wanted

    @invariant()
    def no_older_epoch_stores_after_a_newer_one(self):
        changes = [e.by_epoch for e in self.logged(Stored) if e.before != e.after]
        assert changes == sorted(changes)

    @invariant()
    def no_pod_that_may_run_is_deleted(self):
        assert not [e for e in self.logged(Deleted) if e.before.state.may_run]

    @invariant()
    def an_ordinal_leaves_only_when_its_pod_is_in_view(self):
        assert not any(None in e.left.values() for e in self.logged(Stored))

    @invariant()
    def an_ordinal_that_left_never_comes_back(self):
        for e in self.logged(Stored):
            assert e.after.next >= e.before.next
            assert all(n >= e.before.next for n in e.after.members - e.before.members)
        leader = self.leader.epoch
        assert all(e.was_member or e.by_epoch < leader for e in self.logged(Created))

    def teardown(self):
        self.stale = None
        for _ in range(60):
            before = len(self.server.pod_events), len(self.server.clusters)
            self.leader.receive(ALL, ALL)
            # Beyond any delay that failures have brought.
            self.leader.now += timedelta(minutes=2)
            self.leader.run()
            for pod in self.server.views():
                if pod.state is PodState.UNKNOWN:
                    self.server.set_status(pod.name, RUNNING)
                if pod.state is PodState.TERMINATING:
                    self.server.remove(pod.name)
            if len(self.running()) > self.server.wanted:
                self.plugin_retires_one(0, (0, 0, 0))
            if before == (len(self.server.pod_events), len(self.server.clusters)):
                break
        live = [pod.state.is_live for pod in self.server.views()]
        assert live == [True] * self.server.wanted
        asked = len(self.server.audit)
        self.leader.run()
        assert len(self.server.audit) == asked


class WorkersWithOverlay(Workers):
    use_overlay = True


def pick(things, index):
    return things[index % len(things)]


# At night one machine is a test of many minutes.
pytestmark = pytest.mark.timeout(7200)

TestWorkers = Workers.TestCase
TestWorkers.settings = machine_settings(30)
TestWorkersWithOverlay = WorkersWithOverlay.TestCase
TestWorkersWithOverlay.settings = machine_settings(30)
