"""What one worker plan must be, whatever is there.

What comes of plans made from old views is in ``test_worker_machine``.
"""

from hypothesis import given
from hypothesis import strategies as st

from backends.kubernetes.crd.values import WorkersStatus
from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.observed.worker_set import WorkerSet
from backends.kubernetes.planning.actions import CreateWorker, DeletePod, KeepLogTail
from backends.kubernetes.planning.workers import Rules, plan_workers, read_worker_set
from gateway.domain.names import format_worker_name
from tests.support import kube_pods as pods

NEXT = 8
EPOCH = 3


def view(ordinal, status, is_terminating):
    more = {"deletionTimestamp": "now"} if is_terminating else {}
    return parse_pod(pods.a_pod(ordinal, status=status, **more))


ordinals = st.integers(0, NEXT - 1)
statuses = st.sampled_from(
    [
        pods.PENDING,
        pods.UNSCHEDULABLE,
        pods.WAITING,
        pods.RUNNING,
        pods.SUCCEEDED,
        pods.FAILED,
        pods.EVICTED,
        pods.LOST,
    ]
)
views_of_pods = st.lists(
    st.builds(view, ordinals, statuses, st.sampled_from([False, False, True])),
    unique_by=lambda pod: pod.ordinal,
)
worker_sets = st.builds(
    WorkerSet, st.just(NEXT), st.frozensets(ordinals), st.integers(0, EPOCH)
)
names = st.frozensets(ordinals.map(lambda n: format_worker_name("c", n)))
rules_of_plans = st.builds(
    Rules,
    wanted=st.integers(0, 6),
    epoch=st.just(EPOCH),
    may_create=st.sampled_from([True, True, True, False]),
    late=st.just(frozenset()) | names,
    taken=st.just(frozenset()),
)
whatever_is_there = given(rules_of_plans, worker_sets, views_of_pods)


def split(step):
    tails = [a for a in step.actions if isinstance(a, KeepLogTail)]
    deletes = [a for a in step.actions if isinstance(a, DeletePod)]
    creates = [a for a in step.actions if isinstance(a, CreateWorker)]
    removals = [a for a in step.actions if not isinstance(a, CreateWorker)]
    assert step.actions == (*removals, *creates)
    assert len(tails) + len(deletes) == len(removals)
    return deletes, [a.ordinal for a in creates]


def carry_out(views, deletes, creates):
    gone = {action.name for action in deletes}
    made = [parse_pod(pods.a_pod(ordinal)) for ordinal in creates]
    return [p for p in views if p.name not in gone] + made


def is_late(pod, rules):
    return pod.state is PodState.PENDING and pod.name in rules.late


@whatever_is_there
def test_live_workers_are_as_many_as_wanted_or_as_may_run(rules, worker_set, views):
    step = plan_workers(worker_set, views, rules)

    after = carry_out(views, *split(step))

    may_run = sum(pod.state.may_run for pod in views)
    live = sum(pod.state.is_live for pod in after)
    assert live <= max(rules.wanted, may_run)
    if rules.may_create:
        assert live == max(rules.wanted, may_run)


@whatever_is_there
def test_planning_again_asks_for_nothing(rules, worker_set, views):
    step = plan_workers(worker_set, views, rules)
    after = carry_out(views, *split(step))
    # Late ones were deleted; new ones of that name are not late.
    calm = Rules(rules.wanted, epoch=EPOCH, may_create=rules.may_create)

    again = plan_workers(step.worker_set, after, calm)

    assert again.worker_set == step.worker_set
    assert again.actions == ()


@whatever_is_there
def test_only_fresh_ordinals_join(rules, worker_set, views):
    planned = plan_workers(worker_set, views, rules).worker_set

    assert planned.members - worker_set.members == set(range(NEXT, planned.next))


@whatever_is_there
def test_members_leave_that_ended_are_late_or_the_highest_surplus(
    rules, worker_set, views
):
    step = plan_workers(worker_set, views, rules)

    planned = step.worker_set
    members = [p for p in views if p.ordinal in worker_set.members]
    starting = {
        p.ordinal
        for p in members
        if p.state is PodState.PENDING and not is_late(p, rules)
    }
    ended = {p.ordinal for p in members if not p.state.is_live or is_late(p, rules)}
    surplus = starting - planned.members
    assert worker_set.members - planned.members == ended | surplus
    assert all(low < high for low in starting & planned.members for high in surplus)
    assert {p.ordinal for p in step.left} == ended


@whatever_is_there
def test_finished_pods_and_pending_ones_that_are_no_members_go(
    rules, worker_set, views
):
    step = plan_workers(worker_set, views, rules)

    want_deletes = [
        DeletePod(p.name, p.uid, None if p.state.is_finished else p.resource_version)
        for p in sorted(views, key=lambda pod: pod.ordinal)
        if p.state.is_finished
        or (
            p.state is PodState.PENDING
            and (p.ordinal not in step.worker_set.members or is_late(p, rules))
        )
    ]
    assert want_deletes == split(step)[0]


@whatever_is_there
def test_the_last_lines_of_each_failed_pod_are_kept_right_before_it_goes(
    rules, worker_set, views
):
    actions = plan_workers(worker_set, views, rules).actions

    for pod in views:
        if pod.state is PodState.FAILED:
            tail = actions.index(KeepLogTail(pod.name, pod.uid))
            assert actions[tail + 1] == DeletePod(pod.name, pod.uid, None)


@whatever_is_there
def test_members_without_a_pod_are_made_lowest_first(rules, worker_set, views):
    step = plan_workers(worker_set, views, rules)

    made = split(step)[1]
    absent = sorted(step.worker_set.members - {pod.ordinal for pod in views})
    assert made == absent[: len(made)]


@whatever_is_there
def test_a_plan_that_acts_carries_the_epoch_and_one_that_does_not_changes_nothing(
    rules, worker_set, views
):
    step = plan_workers(worker_set, views, rules)

    if step.actions or step.worker_set.members != worker_set.members:
        assert step.worker_set.epoch == EPOCH
    else:
        assert step.worker_set == worker_set


@given(
    st.integers(0, 6), worker_sets, views_of_pods, st.frozensets(ordinals, min_size=1)
)
def test_a_name_that_is_anothers_leaves_the_set_and_is_never_asked_for(
    wanted, worker_set, views, taken
):
    views = [v for v in views if v.ordinal not in taken]
    rules = Rules(wanted, epoch=EPOCH, taken=taken)

    step = plan_workers(worker_set, views, rules)

    assert not step.worker_set.members & taken
    assert not set(split(step)[1]) & taken
    may_run = sum(pod.state.may_run for pod in views)
    live = sum(p.state.is_live for p in carry_out(views, *split(step)))
    assert live == max(wanted, may_run)


@given(views_of_pods, st.integers(-1, NEXT + 4))
def test_lost_set_is_rebuilt_so_that_no_name_in_use_is_given_out(views, last_next):
    status = WorkersStatus(next=last_next, members="lost")

    worker_set = read_worker_set(status, views)

    assert worker_set.members == {pod.ordinal for pod in views}
    assert worker_set.next >= max(worker_set.members, default=-1) + 1
    assert worker_set.next >= last_next
