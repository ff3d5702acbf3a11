"""What an accepted request makes of a cluster's rows. Pure.

Requests only write what is wanted; carrying it out is the planner's business.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from backends.database.actions import Change
from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    Snapshot,
    WorkerRecord,
    WorkerStage,
    parse_ordinals,
)
from gateway.domain.cluster import ClusterEvent, EventType, StopReason
from gateway.domain.errors import ClusterNotRunning
from gateway.domain.lifetime import (
    bound_seconds,
    decide_stop,
    describe_last_end,
    find_due_s,
)
from gateway.domain.names import format_worker_name
from gateway.domain.policy import Share, Usage, room_for_workers
from gateway.domain.scaling import (
    AdaptOutcome,
    ScaleOutcome,
    clamp_target,
    fit_adapt,
    fit_scale,
)
from gateway.domain.sync import SyncReply, SyncReport

Holdings = Sequence[tuple[Share, Usage]]

# More than any cluster that Dask can hold together; bounds what a request costs.
MOST_WORKERS: Final = 100_000
_HIGHEST_PORT: Final = 65535
_HIGHEST_COUNT: Final = 2**31 - 1
# What a scheduler reports is a user's to choose.
_MOST_VERSIONS: Final = 20
_LONGEST_TEXT: Final = 500


def request_stop(
    desired: Snapshot, reason: StopReason, message: str, now_ms: int
) -> Change | None:
    """Return the change that stops a cluster, ``None`` if it is to stop already."""
    cluster = desired.cluster
    if not cluster.accepts_requests:
        return None
    after = replace(cluster, active=False, reason=reason, message=message)
    event = ClusterEvent(now_ms, EventType.NORMAL, reason, message)
    return Change(after, (), (event,))


def request_scale(
    desired: Snapshot, replicas: int, others: Holdings, *, now_ms: int
) -> tuple[Change, ScaleOutcome]:
    """Return the change for a wanted number of workers, and what was accepted.

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
    cluster = _require_running(desired.cluster)
    room = room_for_workers(desired.spec.shape, others)
    cap = desired.spec.config.max_workers
    outcome = fit_scale(replicas, cap, room, most=MOST_WORKERS)
    after = replace(
        cluster, replicas=outcome.replicas, adaptive_id=None, asked_ms=now_ms
    )
    return Change(_reserve(desired, after)), outcome


def request_adapt(
    desired: Snapshot,
    bounds: tuple[int | None, int | None],
    others: Holdings,
    *,
    default: int,
    adaptive_id: str,
    now_ms: int,
) -> tuple[Change, AdaptOutcome]:
    """Return the change for adaptive bounds, and what was accepted.

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
    cluster = _require_running(desired.cluster)
    room = room_for_workers(desired.spec.shape, others)
    cap = desired.spec.config.max_workers
    outcome = fit_adapt(bounds, cap, room, default=default, most=MOST_WORKERS)
    after = replace(
        cluster,
        adaptive_id=adaptive_id,
        asked_ms=now_ms,
        adaptive_minimum=outcome.minimum,
        adaptive_maximum=outcome.maximum,
        replicas=clamp_target(cluster.replicas, outcome.minimum, outcome.maximum),
    )
    return Change(_reserve(desired, after)), outcome


def request_end_adaptive(desired: Snapshot) -> Change | None:
    """Return the change that ends adaptive mode, ``None`` if it is off.

    Raises
    ------
    ClusterNotRunning
        If the cluster has ended or is stopping.
    """
    cluster = _require_running(desired.cluster)
    if cluster.adaptive_id is None:
        return None
    return Change(_reserve(desired, replace(cluster, adaptive_id=None)))


def take_report(
    desired: Snapshot, report: SyncReport, now_ms: int
) -> tuple[Change | None, BeatRecord]:
    """Return what a scheduler's report changes, and the beat to keep.

    Names of workers that are not ours, or that have left, change nothing. A
    target counts only under the id of the present bounds, within them. That
    the cluster has outlived its use is found here too, with the freshest facts.
    """
    cluster = desired.cluster
    beat = _build_beat(cluster, report, now_ms)
    if not cluster.accepts_requests:
        return None, beat
    rows = _note_workers(desired, report, now_ms)
    after, events = _note_scheduler(cluster, report, now_ms)
    if any(_is_first_seen(w, now_ms) for w in rows):
        after = replace(after, start_failures=0)
    told = _lay_over(desired, after, rows, beat)
    end = decide_stop(
        desired.spec.lifetimes,
        age_s=desired.find_age_s(now_ms),
        beat=told.find_beat(now_ms),
    )
    if end is not None and cluster.running_ms is not None:
        reason, text = end
        after = replace(after, active=False, reason=reason, message=text)
        events += (ClusterEvent(now_ms, EventType.NORMAL, reason, text),)
    if after == cluster and not rows:
        return None, beat
    return Change(after, rows, events), beat


def find_due(
    desired: Snapshot, change: Change | None, beat: BeatRecord, now_ms: int
) -> float | None:
    """Return the seconds after which the next report may end the cluster.

    Parameters
    ----------
    desired
        Before the report.
    change, beat
        What `take_report` made of it.
    """
    after = desired.cluster if change is None else change.cluster
    if after.running_ms is None or not after.accepts_requests:
        return None
    rows = () if change is None else change.workers
    seen = _lay_over(desired, after, rows, beat).find_beat(now_ms)
    if seen is None:
        return None
    age_s = desired.find_age_s(now_ms)
    return find_due_s(desired.spec.lifetimes, age_s=age_s, beat=seen)


def build_reply(
    cluster: ClusterRecord, spec: ClusterSpec | None = None, due_s: float | None = None
) -> SyncReply:
    """Return what is wanted of the scheduler.

    Parameters
    ----------
    spec
        Needed for a notice.
    due_s
        As `find_due` says.
    """
    notice = ""
    if cluster.is_warned and spec is not None:
        notice = describe_last_end(cluster.created_ms, spec.lifetimes)
    return SyncReply(
        due_s=due_s,
        notice=notice,
        generation=cluster.generation,
        replicas=cluster.replicas,
        adaptive=cluster.adaptive,
        active=cluster.accepts_requests,
    )


def _lay_over(
    desired: Snapshot,
    cluster: ClusterRecord,
    changed: Sequence[WorkerRecord],
    beat: BeatRecord,
) -> Snapshot:
    by_ordinal = {w.ordinal: w for w in (*desired.workers, *changed)}
    workers = tuple(by_ordinal.values())
    return replace(desired, cluster=cluster, workers=workers, beat=beat)


def _require_running(cluster: ClusterRecord) -> ClusterRecord:
    if cluster.accepts_requests:
        return cluster
    raise ClusterNotRunning.tell(
        cluster.name, cluster.reason, has_ended=cluster.phase.is_terminal
    )


def _build_beat(cluster: ClusterRecord, report: SyncReport, now_ms: int) -> BeatRecord:
    ours = parse_ordinals(cluster.name, report.held)
    held = {format_worker_name(cluster.name, n) for n in ours}
    versions = list(report.versions.items())[:_MOST_VERSIONS]
    return BeatRecord(
        received_ms=now_ms,
        idle_s=bound_seconds(report.idle_s),
        no_client_s=bound_seconds(report.no_client_s),
        clients=_bound_count(report.clients),
        unfinished=_bound_count(report.unfinished),
        outsiders=_bound_count(report.outsiders),
        held={k: v[:_LONGEST_TEXT] for k, v in report.held.items() if k in held},
        versions={k[:_LONGEST_TEXT]: v[:_LONGEST_TEXT] for k, v in versions},
        seen=_bound_count(report.seen),
    )


def _bound_count(count: int) -> int:
    return max(0, min(count, _HIGHEST_COUNT))


def _reserve(desired: Snapshot, after: ClusterRecord) -> ClusterRecord:
    # What still runs is held until it has left, whatever is wanted.
    held = max(after.most_workers, len(desired.members))
    return replace(after, reserved_workers=held)


def _note_scheduler(
    cluster: ClusterRecord, report: SyncReport, now_ms: int
) -> tuple[ClusterRecord, tuple[ClusterEvent, ...]]:
    after = cluster
    events: tuple[ClusterEvent, ...] = ()
    ports = report.ports
    if ports is not None and cluster.route_host is None and _is_port(ports.scheduler):
        dashboard = ports.dashboard if _is_port(ports.dashboard) else None
        after = replace(after, scheduler_port=ports.scheduler, dashboard_port=dashboard)
    adaptive = cluster.adaptive
    if (
        adaptive is not None
        and report.adaptive_id == adaptive.id
        and report.target is not None
    ):
        target = clamp_target(report.target, adaptive.minimum, adaptive.maximum)
        after = replace(after, replicas=target)
    if cluster.is_silent:
        after = replace(after, is_silent=False)
        text = "scheduler calls the gateway again"
        events = (
            ClusterEvent(now_ms, EventType.NORMAL, "SchedulerHeard", text, "scheduler"),
        )
    return after, events


def _is_port(port: int | None) -> bool:
    return port is not None and 0 < port <= _HIGHEST_PORT


def _note_workers(
    desired: Snapshot, report: SyncReport, now_ms: int
) -> tuple[WorkerRecord, ...]:
    name = desired.cluster.name
    connected = parse_ordinals(name, report.workers)
    draining = parse_ordinals(name, report.draining)
    changed = []
    for worker in desired.workers:
        if not worker.stage.is_live:
            continue
        if worker.ordinal in draining:
            stage = WorkerStage.DRAINING
        elif worker.ordinal in connected:
            stage = WorkerStage.CONNECTED
        else:
            continue
        if stage is not worker.stage:
            since_ms = now_ms if worker.connected_ms is None else worker.connected_ms
            changed.append(replace(worker, stage=stage, connected_ms=since_ms))
    return tuple(changed)


def _is_first_seen(worker: WorkerRecord, now_ms: int) -> bool:
    return worker.connected_ms == now_ms
