"""What an accepted request makes of a ``DaskCluster``, as patches. Pure.

Requests only write what is wanted; carrying it out is the controller's business.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backends.kubernetes.backend.sharing import Holdings, find_shape
from backends.kubernetes.crd.formatting import (
    Patch,
    format_adapt_patch,
    format_asked_patch,
    format_first_sync_patch,
    format_first_worker_patch,
    format_scale_patch,
    format_stop_patch,
    format_target_patch,
    join_patches,
)
from backends.kubernetes.crd.lifetimes import Lifetimes, resolve_lifetimes
from backends.kubernetes.crd.parsing import MAX_WORKERS
from backends.kubernetes.crd.values import AdaptiveSpec, AdaptiveTarget, DaskCluster
from backends.kubernetes.planning.conditions import ConditionType
from gateway.domain import lifetime
from gateway.domain.cluster import ClusterPhase, StopReason
from gateway.domain.errors import ClusterNotRunning
from gateway.domain.names import parse_worker_ordinal
from gateway.domain.policy import room_for_workers
from gateway.domain.scaling import (
    AdaptOutcome,
    ScaleOutcome,
    clamp_target,
    fit_adapt,
    fit_scale,
)
from gateway.domain.sync import Adaptive, SyncReply, SyncReport

# As the schema of the status takes it.
_MAX_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class Change:
    """One write of a ``DaskCluster``.

    Parameters
    ----------
    patch
        A merge patch.
    is_status
        Of the status, else of the rest.
    is_exact
        Only if nobody has written the object since it was read.
    """

    patch: Patch
    is_status: bool = False
    is_exact: bool = False


def accepts_requests(cluster: DaskCluster) -> bool:
    """Return whether the cluster has neither ended nor is to end."""
    is_over = cluster.status.phase.is_terminal or cluster.is_deleting
    return cluster.spec.active and not is_over


def require_running(cluster: DaskCluster) -> None:
    """Refuse a cluster that has ended or is to end.

    Raises
    ------
    ClusterNotRunning
        With what is known of why.
    """
    if accepts_requests(cluster):
        return
    has_ended = cluster.status.phase.is_terminal
    reason = cluster.status.reason if has_ended else cluster.stop_reason
    raise ClusterNotRunning.tell(cluster.name, reason, has_ended=has_ended)


def request_stop(
    cluster: DaskCluster, reason: StopReason, message: str
) -> tuple[Change, ...]:
    """Return what stops a cluster; nothing if it is to stop already."""
    if not accepts_requests(cluster):
        return ()
    # Exact, so that the first one's reason stays.
    patch = format_stop_patch(str(reason), message[:_MAX_MESSAGE])
    return (Change(patch, is_exact=True),)


def request_scale(
    cluster: DaskCluster, replicas: int, others: Holdings, *, now: datetime
) -> tuple[tuple[Change, ...], ScaleOutcome]:
    """Return what sets a wanted number of workers, and what was accepted.

    Parameters
    ----------
    replicas
        As asked for.
    others
        Each capped share of the cluster with what its other clusters hold.

    Raises
    ------
    InvalidRequest
        If it is negative.
    ClusterNotRunning
        If the cluster has ended or is stopping.
    """
    require_running(cluster)
    room = room_for_workers(find_shape(cluster), others)
    cap = cluster.spec.limits.max_workers
    outcome = fit_scale(replicas, cap, room, most=MAX_WORKERS)
    # Also where it seems to be so already: what is seen may be old.
    patches = [format_scale_patch(outcome.replicas), format_asked_patch(now)]
    return (Change(join_patches(patches)),), outcome


def request_adapt(
    cluster: DaskCluster,
    bounds: tuple[int | None, int | None],
    others: Holdings,
    *,
    default: int,
    adaptive_id: str,
    now: datetime,
) -> tuple[tuple[Change, ...], AdaptOutcome]:
    """Return what sets adaptive bounds, and what was accepted.

    Parameters
    ----------
    bounds
        Minimum and maximum as asked for.
    others
        As for `request_scale`.
    default
        As for `gateway.domain.scaling.clamp_adapt`.
    adaptive_id
        Fresh; targets under any other id are ignored from now on.

    Raises
    ------
    InvalidRequest, ClusterNotRunning
        As `request_scale`.
    """
    require_running(cluster)
    room = room_for_workers(find_shape(cluster), others)
    cap = cluster.spec.limits.max_workers
    outcome = fit_adapt(bounds, cap, room, default=default, most=MAX_WORKERS)
    adaptive = AdaptiveSpec(
        id=adaptive_id, minimum=outcome.minimum, maximum=outcome.maximum
    )
    patches = [format_adapt_patch(adaptive), format_asked_patch(now)]
    change = Change(join_patches(patches))
    wanted = clamp_target(cluster.wanted_workers, outcome.minimum, outcome.maximum)
    base = cluster.spec.workers.replicas
    if clamp_target(base, outcome.minimum, outcome.maximum) == wanted:
        return (change,), outcome
    # The number of now is the start of the new bounds too. The schema fixes it
    # while there are bounds, so the old ones end first.
    return (Change(format_scale_patch(cluster.wanted_workers)), change), outcome


def request_end_adaptive(cluster: DaskCluster) -> tuple[Change, ...]:
    """Return what ends adaptive mode; nothing if it is off.

    Raises
    ------
    ClusterNotRunning
        If the cluster has ended or is stopping.
    """
    require_running(cluster)
    if cluster.spec.workers.adaptive is None:
        return ()
    return (Change(format_scale_patch(cluster.wanted_workers), is_exact=True),)


def take_report(
    cluster: DaskCluster, report: SyncReport, defaults: Lifetimes, now: datetime
) -> tuple[Change, ...]:
    """Return what a scheduler's report changes; nothing where it says nothing new.

    Names of workers that are not ours change nothing. A target counts only
    under the id of the present bounds, within them. That the cluster has
    outlived its use is found here too, with the freshest facts.

    Parameters
    ----------
    defaults
        Of a cluster that does not say otherwise.
    """
    if not accepts_requests(cluster):
        return ()
    firsts = list(_note_firsts(cluster, report, now))
    targets = list(_note_target(cluster, report))
    changes = []
    if firsts or targets:
        patch = join_patches([*firsts, *targets])
        # Firsts are written once; a target may lie over any other.
        changes.append(Change(patch, is_status=True, is_exact=bool(firsts)))
    end = _find_end(cluster, report, defaults, now)
    if end is not None:
        changes += request_stop(cluster, *end)
    return tuple(changes)


def build_reply(
    cluster: DaskCluster,
    report: SyncReport | None,
    defaults: Lifetimes,
    now: datetime,
) -> SyncReply:
    """Return what is wanted of the scheduler.

    Parameters
    ----------
    report
        That is answered; ``None`` where an older one still waits.
    """
    bounds = cluster.spec.workers.adaptive
    limits = _find_limits(cluster, defaults)
    is_running = _is_running(cluster)
    due_s = None
    if report is not None and is_running:
        beat = _build_beat(cluster, report, defaults, now)
        age_s = _count_s(cluster.created, now) or 0.0
        due_s = lifetime.find_due_s(limits, age_s=age_s, beat=beat)
    return SyncReply(
        generation=cluster.generation,
        replicas=cluster.wanted_workers,
        adaptive=None
        if bounds is None
        else Adaptive(bounds.id, bounds.minimum, bounds.maximum),
        active=accepts_requests(cluster),
        due_s=due_s,
        notice=_find_notice(cluster, limits, now) if is_running else "",
    )


def _note_firsts(
    cluster: DaskCluster, report: SyncReport, now: datetime
) -> Iterator[Patch]:
    status = cluster.status
    if status.first_sync_time is None:
        yield format_first_sync_patch(now)
    if status.first_worker_time is None and _has_own(cluster, report.workers):
        yield format_first_worker_patch(now)


def _has_own(cluster: DaskCluster, names: Sequence[str]) -> bool:
    return any(parse_worker_ordinal(cluster.name, n) is not None for n in names)


def _note_target(cluster: DaskCluster, report: SyncReport) -> Iterator[Patch]:
    bounds = cluster.spec.workers.adaptive
    if bounds is None or report.target is None or report.adaptive_id != bounds.id:
        return
    target = clamp_target(report.target, bounds.minimum, bounds.maximum)
    if target != cluster.wanted_workers:
        yield format_target_patch(AdaptiveTarget(id=bounds.id, target=target))


def _find_end(
    cluster: DaskCluster, report: SyncReport, defaults: Lifetimes, now: datetime
) -> tuple[StopReason, str] | None:
    if not _is_running(cluster):
        return None
    return lifetime.decide_stop(
        _find_limits(cluster, defaults),
        age_s=_count_s(cluster.created, now) or 0.0,
        beat=_build_beat(cluster, report, defaults, now),
    )


def _find_notice(
    cluster: DaskCluster, limits: lifetime.Lifetimes, now: datetime
) -> str:
    created, warning_s = cluster.created, lifetime.find_warning_s(limits)
    if created is None or warning_s is None:
        return ""
    if (now - created).total_seconds() < warning_s:
        return ""
    return lifetime.describe_last_end(round(created.timestamp() * 1000), limits)


def _is_running(cluster: DaskCluster) -> bool:
    return cluster.status.phase is ClusterPhase.RUNNING and accepts_requests(cluster)


def _find_limits(cluster: DaskCluster, defaults: Lifetimes) -> lifetime.Lifetimes:
    times = resolve_lifetimes(cluster.spec, defaults)
    return lifetime.Lifetimes(
        times.idle_timeout_seconds,
        times.no_client_timeout_seconds,
        times.max_lifetime_seconds,
    )


def _build_beat(
    cluster: DaskCluster, report: SyncReport, defaults: Lifetimes, now: datetime
) -> lifetime.Beat:
    connected = sum(_has_own(cluster, [name]) for name in report.workers)
    missing = cluster.wanted_workers - connected
    times = resolve_lifetimes(cluster.spec, defaults)
    return lifetime.Beat(
        age_s=0.0,
        idle_s=lifetime.bound_seconds(report.idle_s),
        no_client_s=lifetime.bound_seconds(report.no_client_s),
        awaited_s=lifetime.count_awaited_s(
            asked_s=_count_s(cluster.asked, now),
            patience_s=times.worker_start_timeout_seconds,
            missing=missing,
            arrived_s=_count_s(_find_arrival(cluster) or now, now),
        ),
    )


def _find_arrival(cluster: DaskCluster) -> datetime | None:
    """Return since when all workers are there; ``None``: it is not told yet."""
    for condition in cluster.status.conditions:
        if condition.type == ConditionType.WORKERS_READY and condition.status == "True":
            return condition.last_transition_time
    return None


def _count_s(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())
