"""Decide who is in the worker set, and which pods to create and delete.

Pure: no I/O, no clock. What a pod looks like is not decided here. Pods that may
run are never deleted here: the scheduler's plugin drains them first, and their
Dask container then shows up as ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from backends.kubernetes.crd.values import WorkersStatus
from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import PodState
from backends.kubernetes.observed.worker_set import WorkerSet, parse_worker_set
from backends.kubernetes.planning.actions import CreateWorker, DeletePod, KeepLogTail

WorkerAction = KeepLogTail | DeletePod | CreateWorker


@dataclass(frozen=True, slots=True)
class Rules:
    """What bounds one plan of workers.

    Parameters
    ----------
    wanted
        Number of live workers to have, ``>= 0``. Already clamped to the
        cluster's limits.
    epoch
        Of the leader that plans.
    may_create
        False while creates are held back.
    late
        Names of pending pods that have waited for too long.
    taken
        Ordinals whose names are another's: they leave the set.
    known_tails
        Uids of pods whose last log lines were asked for.
    """

    wanted: int
    epoch: int = 0
    may_create: bool = True
    late: frozenset[str] = frozenset()
    taken: frozenset[int] = frozenset()
    known_tails: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The worker set to store, and what to do once it is stored.

    Parameters
    ----------
    worker_set
        The one that is stored, if there is nothing to do.
    actions
        Deletions first, then creations, each by ordinal; before the deletion of
        a failed pod, its last log lines.
    left
        Pods whose ordinals leave the set because they ended, are late, or are
        being deleted: not those that are no longer wanted.
    """

    worker_set: WorkerSet
    actions: tuple[WorkerAction, ...] = ()
    left: tuple[PodView, ...] = ()


def plan_workers(
    worker_set: WorkerSet, pods: Iterable[PodView], rules: Rules
) -> WorkerPlan:
    """Plan the changes that move the workers of a cluster towards what is wanted.

    Parameters
    ----------
    worker_set
        The set that is stored. It may be stale: storing the new one fails then.
    pods
        Worker pods that this cluster owns, in any order. They may be stale.

    Raises
    ------
    ValueError
        If ``rules.wanted`` is negative.

    Notes
    -----
    An ordinal leaves the set only when its pod was *seen*: ended, late, going
    away, another's, or pending and not wanted. A member without a pod in
    ``pods`` may have one that the cache does not show yet; so it stays, and is
    created (again) when there is room. Otherwise a lagging cache could make one
    worker too many.

    Examples
    --------
    >>> pending = PodView(namespace="n", name="c1-worker-0", uid="u0", cluster="c1",
    ...     resource_version="5", ordinal=0, state=PodState.PENDING)
    >>> one = WorkerSet(next=1, members=frozenset({0}))
    >>> plan_workers(one, [pending], Rules(wanted=2)).worker_set
    WorkerSet(next=2, members=frozenset({0, 1}), epoch=0)
    >>> plan_workers(one, [pending], Rules(wanted=2)).actions
    (CreateWorker(ordinal=1),)
    >>> plan_workers(one, [pending], Rules(wanted=0)).actions
    (DeletePod(name='c1-worker-0', uid='u0', resource_version='5'),)
    """
    if rules.wanted < 0:
        raise ValueError(f"wanted must be >= 0, got {rules.wanted}")
    ordered = sorted(pods, key=_by_ordinal)
    members = [p for p in ordered if p.ordinal in worker_set.members]
    room = max(0, rules.wanted - sum(p.state.may_run for p in ordered))
    starting = [p for p in members if _is_starting(p, rules)]
    kept = {p.name for p in starting[:room]}
    departing = [p for p in ordered if not (p.state.may_run or p.name in kept)]

    seen = {p.ordinal for p in members} | rules.taken
    absent = sorted(n for n in worker_set.members if n not in seen)
    missing = room - len(kept) if rules.may_create else 0
    again = absent[:missing]
    start = worker_set.next
    fresh = range(start, start + missing - len(again))

    gone = {p.ordinal for p in departing} | rules.taken
    staying = (n for n in worker_set.members if n not in gone)
    after = WorkerSet(fresh.stop, frozenset((*staying, *fresh)), worker_set.epoch)
    actions = (
        *_remove(departing, rules),
        *(CreateWorker(ordinal) for ordinal in (*again, *fresh)),
    )
    if actions or after != worker_set:
        # A new leader's first write makes every older view worthless.
        after = replace(after, epoch=rules.epoch)
    left = (
        p
        for p in departing
        if p.ordinal in worker_set.members and not _is_starting(p, rules)
    )
    return WorkerPlan(after, actions, tuple(left))


def read_worker_set(status: WorkersStatus, pods: Sequence[PodView]) -> WorkerSet:
    """Return the stored set, or one made of ``pods`` where there is none.

    That is a new cluster, or one whose status was lost: then an ordinal above
    all that ``pods`` show may be given out a second time.
    """
    stored = parse_worker_set(status)
    if stored is not None:
        return stored
    members = frozenset(p.ordinal for p in pods if p.ordinal is not None)
    lowest = max(0, status.next)
    return WorkerSet(
        max([lowest, *(n + 1 for n in members)]), members, max(0, status.epoch)
    )


def _is_starting(pod: PodView, rules: Rules) -> bool:
    return pod.state is PodState.PENDING and pod.name not in rules.late


def _remove(departing: Iterable[PodView], rules: Rules) -> Iterable[WorkerAction]:
    for pod in departing:
        if pod.state is PodState.TERMINATING:
            continue
        if pod.state is PodState.FAILED and pod.uid not in rules.known_tails:
            yield KeepLogTail(pod.name, pod.uid)
        # A pending pod that has begun to run has another version, and is spared.
        is_pending = pod.state is PodState.PENDING
        yield DeletePod(pod.name, pod.uid, pod.resource_version if is_pending else None)


def _by_ordinal(pod: PodView) -> tuple[float, str]:
    return (inf if pod.ordinal is None else pod.ordinal, pod.name)
