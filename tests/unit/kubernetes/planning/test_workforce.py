"""Workers: exact numbers in every mixture, crashes, deadlines, refusals, words."""

from datetime import timedelta

import msgspec
import pytest

from backends.kubernetes.crd.values import WorkersStatus
from backends.kubernetes.observed.worker_set import WorkerSet
from backends.kubernetes.planning.actions import (
    AskWhy,
    CreateWorker,
    DeletePod,
    KeepLogTail,
)
from backends.kubernetes.planning.belongings import find_workers
from backends.kubernetes.planning.inputs import RefusalKind
from backends.kubernetes.planning.workers import Rules, plan_workers
from gateway.domain.cluster import ClusterPhase
from tests.support import kube_pods as pods
from tests.support.kube_pods import at
from tests.support.kube_situations import EPOCH, Situation, later, refused, worker


def pending_since(seconds, **more):
    return {**pods.WAITING, **more, "conditions": [pods.scheduled(seconds)]}


def running_since(seconds):
    return pods.started({"running": {"startedAt": at(seconds)}})


def ended_after(seconds, code=0):
    times = {"startedAt": at(0), "finishedAt": at(seconds)}
    return pods.started(pods.ended(code, **times))


def a_cluster(wanted, *workers, failures=0, failed_at=0, connected=True):
    """Return a cluster whose set holds exactly ``workers``."""
    ordinals = [pod.ordinal for pod in workers]
    status = WorkersStatus(
        next=max(ordinals, default=-1) + 1,
        members=",".join(map(str, ordinals)),
        epoch=1,
        failures=failures,
        last_failure_time=later(failed_at) if failures else None,
    )
    situation = Situation().wanting(wanted).with_workers(*workers)
    first = later(1) if connected else None
    return situation.saying(workers=status, first_worker_time=first)


def condition(plan):
    return plan.status.conditions[-1]


def created(plan):
    return [a.ordinal for a in plan.actions if isinstance(a, CreateWorker)]


def deleted(plan):
    return [a.name for a in plan.actions if isinstance(a, DeletePod)]


class TestScale:
    def test_exactly_the_surplus_goes_pending_ones_first(self) -> None:
        """W1 and users.md row 1."""
        ten = [worker(n, pods.PENDING) for n in range(10)]

        plan = a_cluster(9, *ten).plan()

        assert deleted(plan) == ["c-worker-9"]
        assert plan.status.workers.members == "0-8"

    def test_all_of_the_unscheduled_go_when_none_is_wanted(self) -> None:
        """W2: pods that no node has taken count like any others."""
        nine = [worker(n, pods.UNSCHEDULABLE) for n in range(9)]

        plan = a_cluster(0, *nine).plan()

        assert len(deleted(plan)) == 9
        assert created(a_cluster(9, *nine).plan()) == []

    def test_running_ones_are_left_to_the_scheduler(self) -> None:
        three = [worker(n, pods.RUNNING) for n in range(3)]

        plan = a_cluster(1, *three, worker(3, pods.PENDING)).plan()

        assert deleted(plan) == ["c-worker-3"]
        assert (condition(plan).status, condition(plan).reason) == ("True", "Draining")

    def test_a_retired_one_is_deleted_and_not_replaced(self) -> None:
        """users.md row 43."""
        plan = a_cluster(1, worker(0, pods.RUNNING), worker(1, ended_after(99))).plan()

        assert deleted(plan) == ["c-worker-1"]
        assert created(plan) == []
        assert plan.status.workers.failures == 0
        assert plan.events == ()

    def test_a_lost_one_is_replaced_under_a_name_of_its_own(self) -> None:
        """users.md rows 15 and 56."""
        plan = a_cluster(2, worker(0, pods.RUNNING), worker(1, pods.EVICTED)).plan()

        assert created(plan) == [2]
        assert plan.status.workers.failures == 0
        assert [e.reason for e in plan.events] == ["WorkerLost"]

    def test_a_mixture_of_everything_comes_to_exactly_what_is_wanted(self) -> None:
        mixture = [
            worker(0, pods.RUNNING),
            worker(1, pods.PENDING),
            worker(2, pods.UNSCHEDULABLE),
            worker(3, pods.FAILED),
            worker(4, pods.SUCCEEDED),
            worker(5, pods.EVICTED),
            worker(6, pods.LOST),
            worker(7, pods.RUNNING, deletionTimestamp="now"),
        ]

        plan = a_cluster(6, *mixture).plan()

        assert created(plan) == [8, 9]
        assert deleted(plan) == ["c-worker-3", "c-worker-4", "c-worker-5"]
        assert plan.status.workers.members == "0-2,6,8-9"
        assert (plan.status.workers.ready, plan.status.workers.starting) == (1, 2)

    def test_a_negative_number_is_a_bug(self) -> None:
        with pytest.raises(ValueError, match="wanted must be >= 0, got -1"):
            plan_workers(WorkerSet(), [], Rules(wanted=-1))

    def test_pods_of_another_anchor_are_not_counted(self) -> None:
        plan = a_cluster(1).with_workers(worker(5, pods.RUNNING, owner="former")).plan()

        assert created(plan) == [0]

    def test_a_pod_of_ours_with_a_name_of_none_is_taken_back(self) -> None:
        stray = worker(0, pods.PENDING)
        stray = msgspec.structs.replace(stray, name="c-worker-x", ordinal=None)

        plan = a_cluster(0).with_workers(stray).plan()

        assert deleted(plan) == ["c-worker-x"]

    def test_without_an_anchor_there_are_none(self) -> None:
        situation = a_cluster(0, worker(0, pods.RUNNING)).seen(anchor=None)

        assert find_workers(*situation.inputs()) == ()


class TestCrashLoop:
    def test_a_failed_worker_leaves_its_last_lines_and_is_replaced(self) -> None:
        plan = a_cluster(1, worker(0, pods.FAILED)).plan(5)

        assert plan.actions == (
            KeepLogTail("c-worker-0", "u0"),
            DeletePod("c-worker-0", "u0"),
            CreateWorker(1),
        )
        assert plan.status.workers.failures == 1
        assert plan.status.workers.last_failure_time == later(5)

    def test_known_last_lines_are_not_asked_for_again(self) -> None:
        situation = a_cluster(1, worker(0, pods.FAILED)).seen(log_tails={"u0": ()})

        assert KeepLogTail("c-worker-0", "u0") not in situation.plan().actions

    def test_too_many_before_any_was_connected_fail_the_cluster(self) -> None:
        """users.md row 28."""
        crashed = worker(2, pods.started(pods.ended(2)))
        situation = a_cluster(1, crashed, failures=2, connected=False)

        asks = situation.plan(5)
        plan = situation.seen(log_tails={"u2": ("no such option",)}).plan(5)

        assert asks.actions == (KeepLogTail("c-worker-2", "u2"),)
        assert plan.status.phase is ClusterPhase.FAILED
        assert plan.status.reason == "WorkersCrashing"
        assert plan.status.message == (
            "3 workers in a row failed before any was connected; the last, "
            "c-worker-2, ended with exit status 2; its last log lines say why"
        )
        assert plan.status.log_tail == ("no such option",)

    def test_a_verdict_that_a_crash_cut_short_is_passed_again(self) -> None:
        situation = a_cluster(1, failures=3, connected=False)

        status = situation.plan(5).status

        assert status.phase is ClusterPhase.FAILED
        assert status.message.endswith("before any was connected")

    def test_while_some_run_that_may_yet_connect_the_verdict_waits(self) -> None:
        crashed, running = worker(0, pods.FAILED), worker(1, running_since(0))
        situation = a_cluster(2, crashed, running, failures=2, connected=False)

        plan = situation.plan(5)

        assert plan.status.phase is ClusterPhase.RUNNING
        assert created(plan) == []
        assert plan.requeue_after == timedelta(seconds=30)

    def test_then_it_falls(self) -> None:
        running = worker(1, running_since(0))
        situation = a_cluster(2, running, failures=3, failed_at=5, connected=False)

        assert situation.plan(34).status.phase is ClusterPhase.RUNNING
        assert situation.plan(35).status.phase is ClusterPhase.FAILED

    def test_one_that_ran_for_long_enough_to_connect_speaks_for_the_cluster(
        self,
    ) -> None:
        running = worker(1, running_since(-300))
        situation = a_cluster(2, running, failures=3, connected=False)

        plan = situation.plan(99)

        assert plan.status.phase is ClusterPhase.RUNNING
        assert created(plan) == [2]

    def test_a_cluster_that_has_had_workers_goes_on_with_what_it_has(self) -> None:
        crashed, running = worker(0, pods.FAILED), worker(1, pods.RUNNING)

        plan = a_cluster(2, crashed, running, failures=4).plan(5)

        assert plan.status.phase is ClusterPhase.RUNNING
        assert created(plan) == [2]
        assert condition(plan).reason == "WorkersFailing"
        assert "failures in a row: 5" in condition(plan).message

    @pytest.mark.parametrize(
        ("failures", "want_delay_s"), [(6, 2), (8, 8), (9, 16), (90, 60)]
    )
    def test_it_makes_new_ones_ever_more_slowly(self, failures, want_delay_s) -> None:
        situation = a_cluster(1, failures=failures)

        assert situation.plan(1).requeue_after == timedelta(seconds=want_delay_s - 1)
        assert created(situation.plan(1)) == []
        assert created(situation.plan(want_delay_s)) == [0]

    def test_old_failures_are_forgotten(self) -> None:
        situation = a_cluster(1, worker(0, pods.FAILED), failures=90)

        plan = situation.plan(301)

        assert plan.status.workers.failures == 1
        assert created(plan) == [1]

    @pytest.mark.parametrize(
        "status",
        [pods.EVICTED, pods.LOST, pods.RUNNING],
        ids=["evicted", "lost", "deleted"],
    )
    def test_what_the_platform_takes_is_no_failure(self, status) -> None:
        going = worker(0, status, deletionTimestamp="now")

        plan = a_cluster(1, going, connected=False).plan()

        assert plan.status.workers.failures == 0
        assert created(plan) == [1]

    def test_one_that_ended_well_at_once_though_it_was_wanted_is_one(self) -> None:
        situation = a_cluster(1, worker(0, ended_after(2)), connected=False)

        plan = situation.plan(5)

        assert plan.status.workers.failures == 1
        assert plan.events[0].message == (
            "worker ended with exit status 0 at once, though it was still wanted"
        )

    @pytest.mark.parametrize(
        ("wanted", "status"),
        [
            pytest.param(0, ended_after(2), id="not wanted"),
            pytest.param(1, ended_after(30), id="it had worked"),
            pytest.param(1, pods.SUCCEEDED, id="nobody knows for how long"),
        ],
    )
    def test_other_good_ends_are_none(self, wanted, status) -> None:
        plan = a_cluster(wanted, worker(0, status)).plan(99)

        assert plan.status.workers.failures == 0


class TestDeadlines:
    def test_one_that_does_not_start_on_its_node_is_replaced(self) -> None:
        """users.md row 10."""
        situation = a_cluster(1, worker(0, pending_since(10)))

        before, after = situation.plan(209), situation.plan(210)

        assert before.requeue_after == timedelta(seconds=1)
        assert before.actions == (AskWhy("c-worker-0", "u0"),)
        assert after.actions == (DeletePod("c-worker-0", "u0", "1"), CreateWorker(1))
        assert after.status.workers.failures == 1
        assert "did not start in time: waits for its image" in after.events[0].message

    def test_an_image_that_cannot_be_pulled_counts_sooner(self) -> None:
        status = pods.waiting("ErrImagePull", "not found")
        situation = a_cluster(1, worker(0, status), connected=False)

        assert situation.plan(59).actions == ()
        plan = situation.plan(60)
        assert plan.status.workers.failures == 1
        assert "not found" in plan.events[0].message

    def test_late_ones_fail_a_cluster_that_never_had_a_worker(self) -> None:
        status = pods.waiting("ErrImagePull", "not found")
        three = [worker(n, status) for n in range(3)]

        plan = a_cluster(3, *three, connected=False).plan(60)

        assert plan.status.reason == "WorkersCrashing"
        assert "did not start in time: cannot pull its image" in (plan.status.message)

    def test_one_that_waits_for_a_node_is_never_late(self) -> None:
        """W12: time in the platform's queue does not count."""
        situation = a_cluster(1, worker(0, pods.UNSCHEDULABLE))

        assert situation.plan(10**6).actions == ()
        assert situation.plan().requeue_after is None


class TestRefusals:
    def test_a_quota_holds_creates_back_and_is_told_with_numbers(self) -> None:
        """users.md row 29."""
        text = "exceeded quota: q, requested: pods=1, used: pods=12, limited: pods=12"
        ten = [worker(n, pods.RUNNING) for n in range(10)]
        situation = a_cluster(20, *ten)
        status = situation.status.workers
        situation.saying(
            workers=WorkersStatus(next=20, members="0-19", epoch=status.epoch)
        )
        situation.seen(worker_refusal=refused(RefusalKind.QUOTA, text, until=8))

        plan = situation.plan()

        assert plan.actions == ()
        assert plan.requeue_after == timedelta(seconds=8)
        assert condition(plan).reason == "QuotaExceeded"
        told = condition(plan).message
        assert told.startswith(f"10 of 20 workers; {text}; ask for less")
        assert [(e.reason, e.message) for e in plan.events] == [("QuotaExceeded", told)]
        again = situation.saying(conditions=plan.status.conditions).plan()
        assert again.events == ()
        assert created(situation.plan(8)) == list(range(10, 20))

    def test_a_name_that_is_anothers_is_left_alone_and_told(self) -> None:
        situation = a_cluster(1).saying(
            workers=WorkersStatus(next=1, members="0", epoch=1)
        )

        plan = situation.seen(taken_ordinals=frozenset({0})).plan()

        assert created(plan) == [1]
        assert plan.status.workers.members == "1"
        assert plan.status.workers.epoch == EPOCH
        assert condition(plan).reason == "NameConflict"
        assert "c-worker-0, which are left alone" in condition(plan).message


class TestWords:
    def test_numbers_for_each_way_of_not_running(self) -> None:
        """users.md row 32."""
        some = [
            *(worker(n, pods.RUNNING) for n in range(6)),
            *(worker(n, pods.UNSCHEDULABLE) for n in range(6, 10)),
            *(worker(n, pods.waiting("ErrImagePull", "slow")) for n in range(10, 14)),
            *(worker(n, pods.PENDING) for n in range(14, 16)),
        ]

        plan = a_cluster(16, *some).plan()

        assert condition(plan).reason == "Unschedulable"
        message = condition(plan).message
        assert message.startswith(
            "6 of 16 workers; 4 Unschedulable (fits on no node: 0/3 nodes"
        )
        assert "4 ImagePullFailed (cannot pull its image: slow;" in message
        assert "2 WaitingForNode (waits for a node)" in message

    def test_all_ready(self) -> None:
        plan = a_cluster(1, worker(0, pods.RUNNING)).plan()

        assert (condition(plan).reason, condition(plan).message) == (
            "AllReady",
            "1 of 1 workers",
        )

    def test_those_that_are_not_made_yet_are_starting(self) -> None:
        plan = a_cluster(2).plan()

        assert (condition(plan).reason, condition(plan).message) == (
            "Starting",
            "0 of 2 workers",
        )

    def test_an_owner_gets_the_first_few_events_of_many(self) -> None:
        many = [worker(n, pods.EVICTED) for n in range(9)]

        events = a_cluster(9, *many).plan().events

        assert len(events) == 6
        assert events[-1].message == "4 more workers left unasked"
