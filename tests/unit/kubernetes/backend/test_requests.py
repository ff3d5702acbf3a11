"""What requests and reports write of a cluster, and what they leave alone."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from backends.kubernetes.backend.requests import (
    build_reply,
    request_adapt,
    request_end_adaptive,
    request_scale,
    request_stop,
    take_report,
)
from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.parsing import MAX_WORKERS
from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    ClusterSpec,
    ClusterStatus,
    Condition,
    DaskCluster,
    LifetimesSpec,
    LimitsSpec,
    Owner,
    WorkersSpec,
)
from gateway.domain.cluster import ClusterPhase, StopReason
from gateway.domain.errors import ClusterNotRunning, InvalidRequest
from gateway.domain.policy import Caps, Share, Usage
from gateway.domain.sync import Adaptive, SyncReport

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = "2026-01-01T12:00:00.000Z"
DEFAULTS = Lifetimes(idle_timeout_seconds=100, no_client_timeout_seconds=200)
BOUNDS = AdaptiveSpec(id="a1", minimum=1, maximum=9)
RUNNING = ClusterStatus(
    phase=ClusterPhase.RUNNING, first_sync_time=NOW, first_worker_time=NOW
)


def cluster(
    *,
    replicas: int = 0,
    adaptive: AdaptiveSpec | None = None,
    status: ClusterStatus = RUNNING,
    cap: int | None = None,
    active: bool = True,
    **fields: object,
) -> DaskCluster:
    spec = ClusterSpec(
        owner=Owner("alice"),
        active=active,
        workers=WorkersSpec(replicas=replicas, adaptive=adaptive),
        limits=LimitsSpec(max_workers=cap),
        lifetimes=LifetimesSpec(max_lifetime_seconds=1000),
    )
    found = DaskCluster(
        name="c1",
        namespace="gateway",
        uid="u",
        resource_version="7",
        generation=3,
        created=NOW - timedelta(seconds=10),
        spec=spec,
        status=status,
    )
    return msgspec.structs.replace(found, **fields)


def targeting(target: int, adaptive_id: str = "a1") -> ClusterStatus:
    return msgspec.structs.replace(
        RUNNING, adaptive_target=AdaptiveTarget(id=adaptive_id, target=target)
    )


def report(**fields: object) -> SyncReport:
    return SyncReport(protocol=1, **fields)


def scale(found: DaskCluster, replicas: int, others=()):
    return request_scale(found, replicas, others, now=NOW)


def take(found: DaskCluster, **fields: object):
    return take_report(found, report(**fields), DEFAULTS, NOW)


# Stop.


def test_a_stop_says_who_and_why_and_only_over_what_was_read() -> None:
    (change,) = request_stop(cluster(), StopReason.ADMIN, "by root" * 1000)

    annotations = change.patch["metadata"]["annotations"]
    assert change.patch["spec"] == {"active": False}
    assert annotations["daskfleet.io/stop-reason"] == "StoppedByAdmin"
    assert len(annotations["daskfleet.io/stop-message"]) == 1024
    assert change.is_exact


@pytest.mark.parametrize(
    "found",
    [
        cluster(active=False),
        cluster(status=ClusterStatus(phase=ClusterPhase.FAILED)),
        cluster(is_deleting=True),
    ],
)
def test_what_is_over_is_not_stopped_again_and_takes_no_wishes(found) -> None:
    assert request_stop(found, StopReason.USER, "") == ()
    assert take(found, target=3) == ()
    for call in (
        lambda: scale(found, 1),
        lambda: adapt(found, 0, 1),
        lambda: request_end_adaptive(found),
    ):
        with pytest.raises(ClusterNotRunning):
            call()


def test_who_asks_a_cluster_that_is_over_learns_why() -> None:
    failed = ClusterStatus(phase=ClusterPhase.FAILED, reason="SchedulerLost")

    with pytest.raises(ClusterNotRunning, match=r"has ended \(SchedulerLost\)"):
        scale(cluster(status=failed), 1)
    with pytest.raises(ClusterNotRunning, match=r"is stopping \(IdleTimeout\)"):
        scale(cluster(active=False, stop_reason="IdleTimeout"), 1)


# Scale.


def test_a_scale_ends_adaptive_mode_in_the_same_write() -> None:
    (change,), outcome = scale(cluster(adaptive=BOUNDS), 4)

    assert change.patch == {
        "spec": {"workers": {"replicas": 4, "adaptive": None}},
        "metadata": {"annotations": {"daskfleet.io/asked": STAMP}},
    }
    assert outcome.replicas == 4


def test_the_same_number_again_is_written_since_what_is_seen_may_be_old() -> None:
    assert len(scale(cluster(replicas=4), 4)[0]) == 1


def test_a_number_is_cut_to_the_caps_of_cluster_share_and_sense() -> None:
    others = [(Share("user:alice", Caps(workers=6)), Usage(1, 4, 0, 0))]

    capped = scale(cluster(cap=5), 9)[1]
    shared = scale(cluster(), 9, others)[1]

    assert (capped.replicas, shared.replicas) == (5, 2)
    assert "Scaling to 5 instead" in str(capped.message)
    assert "limit of user 'alice'. Scaling to 2 instead" in str(shared.message)
    assert scale(cluster(), 10**9)[1].replicas == MAX_WORKERS
    assert scale(cluster(), 1, others)[1].message is None
    with pytest.raises(InvalidRequest):
        scale(cluster(), -1)


# Adapt.


def adapt(found: DaskCluster, minimum: int | None, maximum: int | None, others=()):
    return request_adapt(
        found, (minimum, maximum), others, default=50, adaptive_id="a2", now=NOW
    )


def test_bounds_are_written_whole_under_a_fresh_id() -> None:
    (change,), outcome = adapt(cluster(), 0, 5)

    want = {"id": "a2", "minimum": 0, "maximum": 5}
    assert change.patch["spec"] == {"workers": {"adaptive": want}}
    assert change.patch["metadata"]["annotations"] == {"daskfleet.io/asked": STAMP}
    assert (outcome.minimum, outcome.maximum) == (0, 5)


def test_new_bounds_begin_with_the_number_of_now() -> None:
    found = cluster(adaptive=BOUNDS, status=targeting(7))

    (end, begin), _ = adapt(found, 0, 8)

    assert end.patch["spec"]["workers"] == {"replicas": 7, "adaptive": None}
    assert begin.patch["spec"]["workers"]["adaptive"]["id"] == "a2"


def test_new_bounds_that_cut_to_the_same_number_are_one_write() -> None:
    found = cluster(adaptive=BOUNDS, status=targeting(7))

    assert len(adapt(found, 0, 0)[0]) == 1


def test_bounds_are_cut_to_the_caps() -> None:
    others = [(Share("user:alice", Caps(workers=6)), Usage(1, 4, 0, 0))]

    assert adapt(cluster(), None, None)[1].maximum == 50
    assert adapt(cluster(cap=3), 1, 9)[1].maximum == 3
    assert adapt(cluster(), 0, 10**9)[1].maximum == MAX_WORKERS
    assert adapt(cluster(), 1, 2, others)[1].message is None
    shared = adapt(cluster(), 4, 9, others)[1]
    assert (shared.minimum, shared.maximum) == (2, 2)
    assert "Using `maximum=2, minimum=2` instead" in str(shared.message)


def test_the_end_of_adaptive_mode_keeps_the_number() -> None:
    found = cluster(adaptive=BOUNDS, status=targeting(7))

    (change,) = request_end_adaptive(found)

    assert change.patch["spec"]["workers"] == {"replicas": 7, "adaptive": None}
    assert request_end_adaptive(cluster(replicas=7)) == ()


# Reports.


def test_a_report_without_news_writes_nothing() -> None:
    assert take(cluster(), workers=("c1-worker-0",)) == ()
    assert take(cluster(adaptive=BOUNDS, status=targeting(4)), target=4) == ()


def test_first_calls_are_noted_once_and_only_over_what_was_read() -> None:
    new = cluster(status=ClusterStatus())

    (first,) = take(new)
    (both,) = take(new, workers=("gpu", "c1-worker-0"))
    (neither,) = take(new, workers=("gpu",))

    stamp = "2026-01-01T12:00:00Z"
    assert first.patch == {"status": {"firstSyncTime": stamp}}
    assert both.patch == {"status": {"firstSyncTime": stamp, "firstWorkerTime": stamp}}
    assert neither.patch == first.patch
    assert first.is_exact
    assert first.is_status


def test_a_target_counts_under_the_present_id_and_within_the_bounds() -> None:
    found = cluster(adaptive=BOUNDS, status=targeting(4))

    (change,) = take(found, adaptive_id="a1", target=50)

    assert change.patch == {"status": {"adaptiveTarget": {"id": "a1", "target": 9}}}
    assert not change.is_exact
    assert take(found, adaptive_id="a1", target=4) == ()
    assert take(found, adaptive_id="a0", target=5) == ()
    assert take(found, adaptive_id="a1") == ()
    assert take(cluster(), adaptive_id="a1", target=5) == ()


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"idle_s": 101.0}, "IdleTimeout"),
        ({"no_client_s": 201.0}, "NoClientTimeout"),
        ({"idle_s": 99.0, "no_client_s": 199.0}, None),
        ({"idle_s": float("nan"), "no_client_s": float("inf")}, None),
        ({"idle_s": -5.0}, None),
    ],
)
def test_a_cluster_that_outlived_its_use_is_stopped(fields, want) -> None:
    changes = take(cluster(), **fields)

    reasons = [
        c.patch["metadata"]["annotations"]["daskfleet.io/stop-reason"] for c in changes
    ]
    assert reasons == ([] if want is None else [want])


def test_a_lifetime_ends_a_running_cluster_and_no_other() -> None:
    old = {"created": NOW - timedelta(seconds=1001)}
    pending = msgspec.structs.replace(RUNNING, phase=ClusterPhase.PENDING)

    assert len(take(cluster(**old))) == 1
    assert take(cluster(status=pending, **old)) == ()
    assert take(cluster(created=None)) == ()


def ready(since_s: float) -> ClusterStatus:
    condition = Condition(
        type="WorkersReady",
        status="True",
        reason="AllReady",
        last_transition_time=NOW - timedelta(seconds=since_s),
    )
    return msgspec.structs.replace(
        RUNNING,
        conditions=(
            Condition(type="SpecValid", status="True", reason="Accepted"),
            condition,
        ),
    )


@pytest.mark.parametrize(
    ("asked_s", "workers", "status", "is_stopped"),
    [
        (None, 0, RUNNING, True),  # nobody asked
        (50, 1, RUNNING, False),  # one is missing, and may still come
        (500, 1, RUNNING, False),  # it is late by less than the cluster may idle
        (800, 1, RUNNING, True),
        (90, 2, RUNNING, False),  # all have just come
        (150, 2, ready(20), False),  # they came 20 s ago
        (150, 2, ready(120), True),
        (150, 2, ready(200), True),  # they were there when they were asked for
    ],
)
def test_a_cluster_that_waits_for_its_workers_is_in_use(
    asked_s, workers, status, is_stopped
) -> None:
    asked = None if asked_s is None else NOW - timedelta(seconds=asked_s)
    found = cluster(replicas=2, status=status, asked=asked)
    names = ("gpu", *(f"c1-worker-{n}" for n in range(workers)))

    assert bool(take(found, idle_s=101.0, workers=names)) is is_stopped


def reply(found: DaskCluster, *, said: SyncReport | None = None):
    return build_reply(found, said, DEFAULTS, NOW)


def test_a_reply_says_what_is_wanted() -> None:
    plain = reply(cluster(replicas=4))
    adaptive = reply(cluster(adaptive=BOUNDS, status=targeting(5)))
    over = reply(cluster(active=False), said=report())

    assert (plain.generation, plain.replicas, plain.adaptive) == (3, 4, None)
    assert adaptive.replicas == 5
    assert adaptive.adaptive == Adaptive("a1", 1, 9)
    assert (plain.active, over.active) == (True, False)
    assert (plain.due_s, over.due_s) == (None, None)


def test_a_reply_says_when_time_alone_may_end_the_cluster() -> None:
    assert reply(cluster(), said=report(idle_s=40.0)).due_s == 60
    assert reply(cluster(status=ClusterStatus()), said=report()).due_s is None


def test_people_are_told_of_the_end_of_the_longest_life() -> None:
    def notice(age_s: float, **fields: object) -> str:
        found = cluster(**{"created": NOW - timedelta(seconds=age_s), **fields})
        return reply(found).notice

    assert notice(799) == ""
    assert "1000 s after it was made" in notice(801)
    assert notice(801, status=ClusterStatus()) == ""
    assert notice(801, created=None) == ""
    endless = ClusterSpec(owner=Owner("alice"))
    assert notice(801, spec=endless) == ""
