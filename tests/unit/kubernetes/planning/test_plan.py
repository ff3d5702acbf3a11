"""Each row of the decision table, and what it does where things are missing."""

from datetime import timedelta

import msgspec
import pytest

from backends.kubernetes.crd.values import ClusterStatus, WorkersStatus
from backends.kubernetes.names import Child
from backends.kubernetes.planning.actions import (
    CreateChild,
    CreateWorker,
    DeleteAnchor,
    DeleteCluster,
    KeepLogTail,
    LookUp,
    StopCluster,
)
from backends.kubernetes.planning.conditions import TYPES, ConditionType
from backends.kubernetes.planning.inputs import RefusalKind
from backends.kubernetes.planning.plan import wants_route_proof
from gateway.domain.cluster import ClusterPhase, EventType, StopReason
from tests.support.kube_pods import (
    EVICTED,
    LOST,
    OOM_KILLED,
    PENDING,
    RUNNING,
    UNSCHEDULABLE,
    container,
    ended,
    scheduled,
    started,
    waiting,
)
from tests.support.kube_situations import (
    EPOCH,
    EVERYTHING,
    RUNNING_STATUS,
    SCHEDULER_POD,
    Situation,
    an_anchor,
    later,
    refused,
    scheduler,
    worker,
)
from tests.support.kube_world import READY

FIRST = (Child.ANCHOR, Child.CREDENTIALS, Child.PLUGIN, Child.SCHEDULER)
ROUTES = (Child.ROUTE_HTTP, Child.ROUTE_TCP)


def says(plan, kind):
    return next(c for c in plan.status.conditions if c.type == kind)


def creates(*children):
    return tuple(CreateChild(child) for child in children)


def dask_scheduler(state, **more):
    statuses = [container(state, "dask-scheduler")]
    return started(state, containerStatuses=statuses, **more)


CRASHED = dask_scheduler(ended(3))
NOT_READY = dask_scheduler({"running": {}})


class TestEnded:
    ENDED = msgspec.structs.replace(
        RUNNING_STATUS,
        phase=ClusterPhase.FAILED,
        reason="SchedulerEnded",
        completion_time=later(0),
    )

    def test_leftovers_go_and_it_is_looked_at_again_when_retention_ends(self) -> None:
        plan = Situation(self.ENDED).plan(600)

        assert plan.actions == (DeleteAnchor("anchor"),)
        assert plan.status == self.ENDED
        assert plan.requeue_after == timedelta(seconds=3000)

    def test_it_is_deleted_once_retention_is_over(self) -> None:
        plan = Situation(self.ENDED).seen(anchor=None).plan(3600)

        assert plan.actions == (DeleteCluster("uc"),)

    def test_nothing_of_a_last_phase_changes_any_more(self) -> None:
        situation = Situation(self.ENDED).wanting(9).seen(anchor=None, scheduler=None)

        assert situation.plan(1).status == self.ENDED

    def test_an_end_without_a_time_ends_now(self) -> None:
        lost = msgspec.structs.replace(self.ENDED, completion_time=None)

        plan = Situation(lost).plan(77)

        assert plan.status.completion_time == later(77)

    def test_a_clock_that_jumped_back_keeps_nothing_for_longer(self) -> None:
        plan = Situation(self.ENDED).plan(-7200)

        assert plan.requeue_after == timedelta(seconds=3600)

    def test_an_anchor_that_goes_or_is_anothers_is_left_alone(self) -> None:
        for anchor in (
            an_anchor(is_terminating=True),
            an_anchor(cluster_uid="former"),
        ):
            assert Situation(self.ENDED).seen(anchor=anchor).plan(1).actions == ()


def test_a_cluster_that_somebody_deletes_and_something_keeps_is_torn_down() -> None:
    situation = Situation().wanting(3)
    situation.cluster["is_deleting"] = True

    plan = situation.plan()

    assert plan.actions == (DeleteAnchor("anchor"),)
    assert plan.status == RUNNING_STATUS


def test_a_controller_of_an_older_epoch_does_nothing() -> None:
    newer = WorkersStatus(members="", epoch=EPOCH + 1)

    plan = Situation().wanting(3).saying(workers=newer).plan()

    assert plan.actions == ()
    assert plan.status.workers == newer


class TestStop:
    def stopping(self, reason="IdleTimeout", message="idle for 60 s"):
        situation = Situation().wanting(3)
        situation.spec["active"] = False
        situation.cluster |= {"stop_reason": reason, "stop_message": message}
        return situation

    def test_all_goes_and_then_it_has_stopped_with_who_and_why(self) -> None:
        plan = self.stopping().plan(9)

        assert plan.actions == (DeleteAnchor("anchor"),)
        assert not plan.stores_first
        status = plan.status
        assert (status.phase, status.completion_time) == (
            ClusterPhase.STOPPED,
            later(9),
        )
        assert (status.reason, status.message) == ("IdleTimeout", "idle for 60 s")
        assert (status.stop_reason, status.stop_message) == (
            "IdleTimeout",
            "idle for 60 s",
        )
        assert [e.reason for e in plan.events] == ["Stopped"]
        assert says(plan, "WorkersReady").status == "False"

    def test_by_kubectl_alone_it_was_a_person(self) -> None:
        assert self.stopping("", "").plan().status.reason == StopReason.USER

    def test_words_that_the_schema_would_refuse_do_not_keep_it_from_ending(
        self,
    ) -> None:
        status = self.stopping("because I say so!", "x" * 9999).plan().status

        assert status.reason == status.stop_reason == StopReason.USER
        assert len(status.message) == len(status.stop_message) == 1024

    def test_a_cluster_that_never_began_stops_too(self) -> None:
        situation = Situation.new()
        situation.spec["active"] = False

        plan = situation.plan()

        assert plan.actions == ()
        assert plan.status.phase is ClusterPhase.STOPPED

    def test_a_stop_comes_before_any_verdict(self) -> None:
        plan = self.stopping().seen(scheduler=scheduler(CRASHED)).plan()

        assert plan.status.phase is ClusterPhase.STOPPED


class TestRefusedSpec:
    def test_a_new_cluster_fails_with_the_path_and_makes_nothing(self) -> None:
        plan = Situation.new().refusing("spec.x", "must be y").plan()

        assert plan.actions == ()
        assert plan.stores_first
        status = plan.status
        assert (status.phase, status.reason) == (ClusterPhase.FAILED, "SpecRefused")
        assert status.message == "spec.x: must be y"
        assert says(plan, "SpecValid").message == "spec.x: must be y"
        assert [(e.type, e.reason) for e in plan.events] == [
            (EventType.WARNING, "SpecRefused")
        ]

    def test_a_running_one_goes_on_as_it_is_until_it_is_mended(self) -> None:
        situation = Situation().wanting(3).refusing("spec.x", "must be y")

        plan = situation.plan()

        assert plan.actions == ()
        assert plan.status.phase is ClusterPhase.RUNNING
        assert says(plan, "SpecValid").status == "False"
        assert plan.status.reason == "SpecRefused"

    def test_a_running_one_is_still_watched(self) -> None:
        situation = Situation().refusing("spec.x", "no").seen(scheduler=None)

        assert situation.plan().actions == (LookUp(Child.SCHEDULER),)


class TestLoss:
    def test_an_anchor_that_the_cache_lacks_is_looked_up_first(self) -> None:
        plan = Situation().seen(anchor=None).plan()

        assert plan.actions == (LookUp(Child.ANCHOR),)
        assert plan.status == RUNNING_STATUS

    @pytest.mark.parametrize(
        "observed",
        [
            pytest.param({"anchor": None, "absent": {Child.ANCHOR}}, id="gone"),
            pytest.param({"anchor": an_anchor(is_terminating=True)}, id="going"),
            pytest.param(
                {"anchor": an_anchor(cluster_uid="x"), "absent": {Child.ANCHOR}},
                id="another's in its place",
            ),
        ],
    )
    def test_an_anchor_deleted_by_hand_fails_the_cluster_and_is_not_made_again(
        self, observed
    ) -> None:
        plan = Situation().wanting(2).seen(**observed).plan()

        assert plan.status.reason == "AnchorDeleted"
        assert plan.status.phase is ClusterPhase.FAILED
        assert plan.actions == ()

    def test_a_scheduler_that_the_cache_lacks_is_looked_up_first(self) -> None:
        assert Situation().seen(scheduler=None).plan().actions == (
            LookUp(Child.SCHEDULER),
        )

    def test_a_scheduler_that_is_gone_fails_the_cluster(self) -> None:
        situation = Situation().seen(scheduler=None, absent={Child.SCHEDULER})

        plan = situation.plan()

        assert plan.status.reason == "SchedulerLost"
        assert plan.actions == (DeleteAnchor("anchor"),)
        assert plan.stores_first

    def test_a_scheduler_of_a_former_cluster_is_none(self) -> None:
        situation = Situation().seen(scheduler=scheduler(owner="former"))

        assert situation.plan().actions == (LookUp(Child.SCHEDULER),)

    @pytest.mark.parametrize(
        ("pod", "want_reason", "want_text"),
        [
            pytest.param(
                scheduler(CRASHED),
                "SchedulerEnded",
                "scheduler ended with exit status 3",
                id="crash",
            ),
            pytest.param(
                scheduler(dask_scheduler(ended(137, reason="OOMKilled"))),
                "SchedulerEnded",
                "out of memory",
                id="memory",
            ),
            pytest.param(
                scheduler(dask_scheduler(ended(0))),
                "SchedulerEnded",
                "ended with exit status 0",
                id="by itself",
            ),
            pytest.param(
                scheduler(EVICTED),
                "SchedulerLost",
                "evicted from its node",
                id="evicted",
            ),
            pytest.param(
                scheduler(READY, deletionTimestamp="now"),
                "SchedulerLost",
                "deleted by someone",
                id="deleted",
            ),
        ],
    )
    def test_last_lines_are_kept_before_the_verdict(
        self, pod, want_reason, want_text
    ) -> None:
        situation = Situation().seen(scheduler=pod)

        assert situation.plan().actions == (KeepLogTail(SCHEDULER_POD, "us"),)
        verdict = situation.seen(log_tails={"us": ("last",)}).plan(9)

        assert verdict.status.phase is ClusterPhase.FAILED
        assert verdict.status.reason == want_reason
        assert want_text in verdict.status.message
        assert verdict.status.log_tail == ("last",)
        assert verdict.status.completion_time == later(9)
        assert verdict.actions == (DeleteAnchor("anchor"),)
        assert verdict.stores_first

    def test_last_lines_are_few_and_short(self) -> None:
        lines = tuple(f"{n} " + "x" * 9999 for n in range(500))
        situation = Situation().seen(scheduler=scheduler(CRASHED))

        tail = situation.seen(log_tails={"us": lines}).plan().status.log_tail

        assert len(tail) == 100
        assert tail[-1].startswith("499 ")
        assert max(map(len, tail)) == 1000

    def test_a_scheduler_on_a_silent_node_or_with_a_busy_loop_has_not_ended(
        self,
    ) -> None:
        for status in (LOST, NOT_READY):
            plan = Situation().seen(scheduler=scheduler(status)).plan()

            assert plan.status.phase is ClusterPhase.RUNNING
            assert says(plan, "SchedulerReady").status == "False"


class TestStart:
    def test_all_is_made_in_one_go_and_then_told(self) -> None:
        plan = Situation.new().plan()

        assert plan.actions == creates(*FIRST)
        assert not plan.stores_first
        status = plan.status
        assert status.phase is ClusterPhase.PENDING
        assert status.start_time == later(0)
        assert status.host == "dask-c.team.svc"
        assert status.scheduler_pod == SCHEDULER_POD
        assert status.observed_generation == 3
        assert tuple(c.type for c in status.conditions) == TYPES
        assert [e.reason for e in plan.events] == ["Pending"]
        assert plan.requeue_after == timedelta(seconds=300)

    def test_what_was_made_before_a_crash_is_not_made_again(self) -> None:
        situation = Situation.new().seen(anchor=an_anchor(), made={Child.CREDENTIALS})

        plan = situation.plan()

        assert plan.actions == creates(Child.PLUGIN, Child.SCHEDULER)
        assert says(plan, "CredentialsReady").status == "True"

    def test_where_the_scheduler_is_nothing_is_missing(self) -> None:
        plan = Situation.starting(status=PENDING).plan(1)

        assert plan.actions == ()
        assert plan.events == ()
        assert plan.requeue_after == timedelta(seconds=299)

    @pytest.mark.parametrize(
        "anchor", [an_anchor(is_terminating=True), an_anchor(cluster_uid="former")]
    )
    def test_a_former_anchor_is_waited_for(self, anchor) -> None:
        plan = Situation.new().seen(anchor=anchor).plan()

        assert plan.actions == ()
        assert plan.requeue_after == timedelta(seconds=1)
        assert plan.status.scheduler_pod == ""

    def test_what_was_refused_holds_back_what_comes_after_it(self) -> None:
        quota = refused(RefusalKind.QUOTA, "exceeded quota: q", until=5)
        situation = Situation.new().seen(
            anchor=an_anchor(), refusals={Child.PLUGIN: quota}
        )

        plan = situation.plan()
        again = situation.plan(5)

        assert plan.actions == creates(Child.CREDENTIALS)
        assert plan.requeue_after == timedelta(seconds=5)
        assert plan.status.reason == "Creating"
        assert says(plan, "SchedulerReady").reason == "QuotaExceeded"
        assert "exceeded quota: q" in says(plan, "SchedulerReady").message
        assert again.actions == creates(
            Child.CREDENTIALS, Child.PLUGIN, Child.SCHEDULER
        )

    def test_a_refusal_of_what_is_there_all_the_same_says_nothing(self) -> None:
        slow = refused(RefusalKind.UNAVAILABLE, "no answer in time")
        situation = Situation.starting(status=UNSCHEDULABLE)

        plan = situation.seen(refusals={Child.SCHEDULER: slow}).plan()

        assert plan.status.reason == "Unschedulable"
        assert "no answer" not in plan.status.message

    def test_a_missing_namespace_is_told_at_once(self) -> None:
        missing = refused(RefusalKind.NO_NAMESPACE, 'namespaces "team" not found')

        plan = Situation.new().seen(refusals={Child.ANCHOR: missing}).plan()

        assert plan.status.reason == "NamespaceMissing"
        assert plan.status.message.startswith('namespaces "team" not found; an admin')
        (accepted, told) = plan.events
        assert (accepted.reason, told.reason) == ("Pending", "NamespaceMissing")
        assert told.message == plan.status.message

    @pytest.mark.parametrize("kind", [RefusalKind.POLICY, RefusalKind.INVALID])
    def test_a_final_refusal_fails_at_once(self, kind) -> None:
        text = 'violates PodSecurity "restricted:latest"'
        refusals = {Child.SCHEDULER: refused(kind, text)}
        situation = Situation.new().seen(anchor=an_anchor(), refusals=refusals)

        status = situation.plan().status

        assert (status.phase, status.reason) == (ClusterPhase.FAILED, "StartFailed")
        assert status.message.startswith(f"scheduler cannot be created: {text}; ")

    @pytest.mark.parametrize(
        ("status", "want_reason", "want_text"),
        [
            pytest.param(
                UNSCHEDULABLE, "Unschedulable", "fits on no node", id="no node"
            ),
            pytest.param(
                waiting("ErrImagePull", "no such image", name="dask-scheduler"),
                "ImagePullFailed",
                "no such image",
                id="image",
            ),
            pytest.param(
                waiting(
                    "CreateContainerConfigError",
                    'secret "x" not found',
                    name="dask-scheduler",
                ),
                "ConfigurationError",
                'secret "x" not found',
                id="secret",
            ),
            pytest.param(PENDING, "WaitingForNode", "waits for a node", id="pending"),
            pytest.param(
                waiting("ContainerCreating", name="dask-scheduler"),
                "Starting",
                "waits for its image",
                id="starting",
            ),
            pytest.param(NOT_READY, "Starting", "does not answer", id="not ready"),
        ],
    )
    def test_what_it_waits_for_is_told_long_before_the_deadline(
        self, status, want_reason, want_text
    ) -> None:
        plan = Situation.starting(status=status).plan(9)

        assert plan.status.reason == want_reason
        assert want_text in plan.status.message
        assert says(plan, "RoutesReady").reason == "WaitingForScheduler"

    def test_a_scheduler_that_does_not_call_is_told_apart(self) -> None:
        plan = Situation.starting().plan()

        assert plan.status.reason == "WaitingForSync"
        assert "cannot reach the API" in plan.status.message
        assert says(plan, "SchedulerReady").status == "True"


class TestLateStart:
    @pytest.mark.parametrize(
        ("situation", "want_reason", "want_text"),
        [
            pytest.param(
                Situation.starting(status=UNSCHEDULABLE),
                "StartDeadlinePassed",
                "did not start within 300 s: scheduler fits on no node",
                id="no node",
            ),
            pytest.param(
                Situation.new()
                .saying(start_time=later(0))
                .seen(
                    refusals={Child.ANCHOR: refused(RefusalKind.FORBIDDEN, "may not")}
                ),
                "StartDeadlinePassed",
                "anchor is not created yet: may not",
                id="refused all the time",
            ),
            pytest.param(
                Situation.new()
                .saying(start_time=later(0))
                .seen(
                    refusals={Child.ANCHOR: refused(RefusalKind.NAME_CONFLICT, "taken")}
                ),
                "StartFailed",
                "anchor is not created yet: taken",
                id="the name is another's",
            ),
            pytest.param(
                Situation.new().saying(start_time=later(0)),
                "StartDeadlinePassed",
                "scheduler is not created yet",
                id="nothing came of it",
            ),
        ],
    )
    def test_the_last_known_step_is_told(
        self, situation, want_reason, want_text
    ) -> None:
        before, after = situation.plan(299), situation.plan(300)

        assert before.status.phase is ClusterPhase.PENDING
        assert after.status.phase is ClusterPhase.FAILED
        assert after.status.reason == want_reason
        assert want_text in after.status.message

    def test_an_image_that_cannot_be_pulled_fails_sooner(self) -> None:
        status = waiting("ImagePullBackOff", "not found", name="dask-scheduler")
        status["conditions"] = [scheduled(20)]
        situation = Situation.starting(status=status)

        assert situation.plan(79).requeue_after == timedelta(seconds=1)
        assert "within 60 s" in situation.plan(80).status.message

    def test_a_pull_that_fails_before_the_first_look_counts_from_there(self) -> None:
        status = waiting("ImagePullBackOff", name="dask-scheduler")
        status["conditions"] = [scheduled(-500)]

        plan = Situation.starting(status=status).plan(59)

        assert plan.status.phase is ClusterPhase.PENDING

    def test_a_scheduler_that_never_called_shows_its_last_lines(self) -> None:
        situation = Situation.starting()

        assert situation.plan(300).actions == (KeepLogTail(SCHEDULER_POD, "us"),)
        status = situation.seen(log_tails={"us": ("refused",)}).plan(300).status

        assert status.reason == "StartDeadlinePassed"
        assert "has not called the gateway" in status.message
        assert status.log_tail == ("refused",)

    def test_a_route_that_was_never_proved_is_told_apart(self) -> None:
        situation = Situation.starting().saying(first_sync_time=later(1))

        status = situation.seen(log_tails={"us": ()}).plan(300).status

        assert status.reason == "RouteFailed"
        assert "does not answer at the public port" in status.message

    def test_time_without_a_controller_does_not_count(self) -> None:
        situation = Situation.new()
        situation.cluster["created"] = later(-9999)

        assert situation.plan().status.phase is ClusterPhase.PENDING

    def test_row_20_a_new_controller_gives_the_whole_time_again(self) -> None:
        situation = Situation.starting(status=PENDING).seen(led_since=later(9000))

        assert situation.plan(9299).status.phase is ClusterPhase.PENDING
        assert situation.plan(9300).status.reason == "StartDeadlinePassed"

    def test_row_20_what_came_up_while_nobody_looked_runs(self) -> None:
        situation = Situation.starting().saying(first_sync_time=later(200))

        plan = situation.seen(route_proved=True).plan(9999)

        assert plan.status.phase is ClusterPhase.RUNNING


class TestRoutes:
    def calling(self, *, has_objects=False, **observed):
        situation = Situation.starting().saying(first_sync_time=later(1))
        situation.desired["has_route_objects"] = has_objects
        return situation.seen(**observed)

    def test_it_runs_once_its_route_is_proved(self) -> None:
        situation = self.calling()

        waiting_for_it = situation.plan(2)
        plan = situation.seen(route_proved=True).plan(2)

        assert waiting_for_it.requeue_after == timedelta(milliseconds=250)
        assert waiting_for_it.status.reason == "WaitingForRoute"
        assert plan.status.phase is ClusterPhase.RUNNING
        assert plan.status.reason == ""
        assert [c.status for c in plan.status.conditions] == ["True"] * len(TYPES)
        assert [e.reason for e in plan.events] == ["Running"]

    def test_running_and_the_first_workers_are_one_write(self) -> None:
        plan = self.calling(route_proved=True).wanting(2).plan(2)

        assert plan.stores_first
        assert plan.status.phase is ClusterPhase.RUNNING
        assert plan.status.workers.members == "0-1"
        assert plan.actions == (CreateWorker(0), CreateWorker(1))

    def test_route_objects_are_made_once_the_scheduler_answers(self) -> None:
        pending = Situation.starting(status=PENDING)
        pending.desired["has_route_objects"] = True

        assert pending.plan().actions == ()
        assert self.calling(has_objects=True).plan().actions == creates(*ROUTES)
        assert self.calling(has_objects=True, made=EVERYTHING).plan().actions == ()

    def test_a_refused_route_is_told(self) -> None:
        refusals = {Child.ROUTE_TCP: refused(RefusalKind.FORBIDDEN, "may not")}
        situation = self.calling(has_objects=True, refusals=refusals)

        plan = situation.plan()

        assert plan.actions == creates(Child.ROUTE_HTTP)
        assert says(plan, "RoutesReady").reason == "Forbidden"

    def test_a_lost_route_object_of_a_running_cluster_is_made_again(self) -> None:
        situation = Situation()
        situation.desired["has_route_objects"] = True
        refusals = {Child.ROUTE_HTTP: refused(RefusalKind.UNAVAILABLE, until=7)}

        assert situation.plan().actions == creates(*ROUTES)
        held = situation.seen(refusals=refusals).plan()
        assert held.actions == ()
        assert held.requeue_after == timedelta(seconds=7)

    def test_the_public_port_is_asked_only_when_an_answer_can_be_expected(self) -> None:
        def asks(situation):
            return wants_route_proof(*situation.inputs())

        stopped = self.calling()
        stopped.spec["active"] = False
        assert asks(self.calling())
        assert not asks(Situation.starting())
        assert not asks(self.calling(has_objects=True))
        assert not asks(Situation())
        assert not asks(stopped)


class TestLifetime:
    def aged(self, seconds):
        situation = Situation()
        lifetimes = situation.desired["lifetimes"]
        situation.desired["lifetimes"] = type(lifetimes)(max_lifetime_seconds=seconds)
        return situation

    def test_a_cluster_is_stopped_when_its_life_is_over(self) -> None:
        plan = self.aged(100).plan(100)

        assert plan.actions == (
            StopCluster(StopReason.LIFETIME, "ran for 100 s (max_lifetime)"),
        )
        assert plan.status == RUNNING_STATUS

    def test_before_that_it_is_looked_at_in_time(self) -> None:
        assert self.aged(100).plan(40).requeue_after == timedelta(seconds=60)

    def test_without_a_bound_time_changes_nothing(self) -> None:
        assert Situation().plan(10**7).requeue_after is None

    def test_an_object_without_a_time_has_no_age(self) -> None:
        situation = self.aged(100)
        situation.cluster["created"] = None

        assert situation.plan(10**7).actions == ()


class TestLostStatus:
    def test_of_a_running_cluster_it_is_found_anew(self) -> None:
        """W17: it ends in a defined state, whatever was written there."""
        situation = Situation(ClusterStatus()).wanting(2)
        situation.with_workers(worker(4, RUNNING), worker(7, PENDING))

        starting = situation.plan(10**6)
        running = (
            situation.saying(first_sync_time=later(1))
            .seen(route_proved=True)
            .plan(10**6)
        )

        assert starting.status.phase is ClusterPhase.PENDING
        assert starting.status.scheduler_pod == SCHEDULER_POD
        assert starting.actions == ()
        assert running.status.phase is ClusterPhase.RUNNING
        assert running.actions == ()

    def test_the_worker_set_is_made_of_what_is_there(self) -> None:
        situation = Situation().wanting(3)
        situation.with_workers(worker(4, RUNNING), worker(7, PENDING))

        plan = situation.plan()

        assert plan.actions == (CreateWorker(8),)
        assert (plan.status.workers.members, plan.status.workers.next) == ("4,7-8", 9)


def test_a_settled_cluster_asks_for_nothing_and_writes_nothing() -> None:
    situation = Situation().wanting(2)
    situation.saying(workers=WorkersStatus(next=2, members="0-1", epoch=1))
    situation.with_workers(worker(0, RUNNING), worker(1, RUNNING))
    situation.status = situation.plan().status

    plan = situation.plan(5)

    assert plan.actions == ()
    assert plan.status == situation.status
    assert plan.requeue_after is None
    assert plan.events == ()


def test_a_new_leader_writes_only_when_it_acts() -> None:
    situation = Situation().wanting(1)
    situation.saying(workers=WorkersStatus(next=1, members="0", epoch=1))
    situation.with_workers(worker(0, RUNNING))

    settled = situation.plan()
    acting = situation.wanting(2).plan()

    assert settled.status.workers.epoch == 1
    assert acting.status.workers.epoch == EPOCH
    assert acting.stores_first


def test_a_crashed_worker_is_told_in_an_event() -> None:
    situation = Situation().wanting(1)
    situation.saying(workers=WorkersStatus(next=1, members="0", epoch=1))
    situation.with_workers(worker(0, OOM_KILLED))

    plan = situation.plan(7)

    assert [(e.reason, e.worker) for e in plan.events] == [
        ("WorkerFailed", "c-worker-0")
    ]
    assert "out of memory" in plan.events[0].message
    assert plan.events[0].time_ms == round(later(7).timestamp() * 1000)
    assert says(plan, ConditionType.WORKERS_READY).reason == "WorkersFailing"
