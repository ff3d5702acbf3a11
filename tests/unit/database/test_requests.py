import math

import pytest

from backends.database.records import WorkerStage
from backends.database.requests import (
    MOST_WORKERS,
    build_reply,
    find_due,
    request_adapt,
    request_end_adaptive,
    request_scale,
    request_stop,
    take_report,
)
from gateway.domain.cluster import ClusterPhase, StopReason
from gateway.domain.errors import ClusterNotRunning, InvalidRequest
from gateway.domain.policy import Caps, Share, Usage
from gateway.domain.sync import Adaptive, Ports, SyncReport
from tests.support.database_rows import NOW_MS, rows

ROOM_FOR_3 = ((Share("user:alice", Caps(workers=5)), Usage(clusters=1, workers=2)),)
ADAPTIVE = (
    rows().running(2).cluster(adaptive_id="a1", adaptive_minimum=1, adaptive_maximum=6)
)

STARTED, CONNECTED = WorkerStage.STARTED, WorkerStage.CONNECTED
DRAINING, STOPPING = WorkerStage.DRAINING, WorkerStage.STOPPING


def report(**fields: object) -> SyncReport:
    return SyncReport(protocol=1, **fields)


# Stop.


def test_a_stop_is_written_with_who_and_why():
    change = request_stop(rows().build(), StopReason.ADMIN, "by root", NOW_MS)

    assert change is not None
    assert not change.cluster.active
    assert (change.cluster.reason, change.cluster.message) == (
        "StoppedByAdmin",
        "by root",
    )
    assert [e.reason for e in change.events] == ["StoppedByAdmin"]


@pytest.mark.parametrize(
    "made", [rows().cluster(active=False), rows().ended()], ids=["stopping", "ended"]
)
def test_a_second_stop_changes_nothing(made):
    assert request_stop(made.build(), StopReason.USER, "", NOW_MS) is None


# Scale.


def test_a_pending_cluster_can_be_scaled():
    change, outcome = request_scale(rows().build(), 3, (), now_ms=NOW_MS)

    assert (outcome.replicas, outcome.message) == (3, None)
    assert change.cluster.replicas == 3
    assert change.cluster.reserved_workers == 3
    assert change.cluster.phase is ClusterPhase.PENDING


def test_scaling_ends_adaptive_mode():
    change, _ = request_scale(ADAPTIVE.build(), 3, (), now_ms=NOW_MS)

    assert change.cluster.adaptive is None


def test_a_cluster_is_scaled_to_its_own_limit():
    _, outcome = request_scale(rows(max_workers=4).build(), 9, (), now_ms=NOW_MS)

    assert outcome.replicas == 4
    assert "Scaling to 4 instead" in (outcome.message or "")


def test_a_cluster_is_scaled_to_the_room_of_its_shares():
    change, outcome = request_scale(rows().build(), 9, ROOM_FOR_3, now_ms=NOW_MS)

    assert outcome.replicas == change.cluster.replicas == 3
    assert outcome.message == (
        "Scale request of 9 workers would exceed the limit of user 'alice'. "
        "Scaling to 3 instead."
    )


def test_less_than_the_room_is_taken_as_it_is():
    _, outcome = request_scale(rows().build(), 3, ROOM_FOR_3, now_ms=NOW_MS)

    assert outcome.message is None


def test_no_number_is_too_large_to_be_answered():
    _, outcome = request_scale(rows().build(), 10**30, (), now_ms=NOW_MS)

    assert outcome.replicas == MOST_WORKERS


def test_a_negative_number_is_refused():
    with pytest.raises(InvalidRequest):
        request_scale(rows().build(), -1, (), now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            rows().ended(),
            "cluster c1 is not running: it has ended (StoppedByUser)",
            id="ended",
        ),
        pytest.param(
            rows().cluster(active=False),
            "cluster c1 is not running: it is stopping",
            id="stopping",
        ),
    ],
)
def test_a_cluster_that_ends_takes_no_more_wishes(made, want):
    snapshot = made.build()
    for request in (
        lambda: request_scale(snapshot, 1, (), now_ms=NOW_MS),
        lambda: request_adapt(
            snapshot, (0, 1), (), default=1, adaptive_id="a", now_ms=NOW_MS
        ),
        lambda: request_end_adaptive(snapshot),
    ):
        with pytest.raises(ClusterNotRunning) as caught:
            request()
        assert str(caught.value) == want


def test_workers_that_still_run_stay_reserved():
    made = rows().running(5).worker(CONNECTED, 5)

    change, _ = request_scale(made.build(), 1, (), now_ms=NOW_MS)

    assert change.cluster.reserved_workers == 5


# Adapt.


def test_bounds_get_a_new_id_and_pull_the_number_in():
    change, outcome = request_adapt(
        rows().running(9).build(),
        (1, 4),
        (),
        default=100,
        adaptive_id="a7",
        now_ms=NOW_MS,
    )

    assert (outcome.minimum, outcome.maximum, outcome.message) == (1, 4, None)
    assert change.cluster.adaptive == Adaptive("a7", 1, 4)
    assert change.cluster.replicas == 4
    assert change.cluster.reserved_workers == 4


def test_bounds_are_cut_to_the_room_of_the_shares():
    change, outcome = request_adapt(
        rows().build(), (4, 9), ROOM_FOR_3, default=100, adaptive_id="a", now_ms=NOW_MS
    )

    assert (outcome.minimum, outcome.maximum) == (3, 3)
    assert "Using `maximum=3, minimum=3` instead" in (outcome.message or "")
    assert change.cluster.replicas == 3


def test_bounds_within_the_room_stand():
    _, outcome = request_adapt(
        rows().build(), (0, 3), ROOM_FOR_3, default=100, adaptive_id="a", now_ms=NOW_MS
    )

    assert outcome.message is None


def test_bounds_have_an_end_too():
    _, outcome = request_adapt(
        rows().build(), (10**9, 10**12), (), default=1, adaptive_id="a", now_ms=NOW_MS
    )

    assert (outcome.minimum, outcome.maximum) == (MOST_WORKERS, MOST_WORKERS)


def test_the_end_of_adaptive_mode_leaves_the_number():
    change = request_end_adaptive(ADAPTIVE.build())

    assert change is not None
    assert change.cluster.adaptive is None
    assert change.cluster.replicas == 2


def test_there_is_nothing_to_end_outside_of_adaptive_mode():
    assert request_end_adaptive(rows().running(2).build()) is None


# Reports.


def test_a_report_without_news_changes_nothing_but_the_beat():
    change, beat = take_report(
        rows().running(0).build(), report(idle_s=3, clients=2), NOW_MS
    )

    assert change is None
    assert (beat.received_ms, beat.idle_s, beat.clients) == (NOW_MS, 3, 2)


def test_the_first_ports_are_kept_to_be_proved():
    change, _ = take_report(rows().build(), report(ports=Ports(8786, 8787)), NOW_MS)

    assert change is not None
    assert change.cluster.scheduler_port == 8786
    assert change.cluster.dashboard_port == 8787
    assert change.cluster.route is None


@pytest.mark.parametrize("dashboard", [None, 0, 70_000])
def test_a_dashboard_that_cannot_be_is_none(dashboard):
    change, _ = take_report(rows().build(), report(ports=Ports(1, dashboard)), NOW_MS)

    assert change is not None
    assert change.cluster.dashboard_port is None


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_that_cannot_be_is_ignored(port):
    change, _ = take_report(rows().build(), report(ports=Ports(port)), NOW_MS)

    assert change is None


def test_w33_ports_cannot_be_changed_once_they_are_routed_to():
    change, _ = take_report(
        rows().running(0).build(), report(ports=Ports(22, 25)), NOW_MS
    )

    assert change is None


def test_workers_that_are_reported_have_connected():
    made = rows().running(2).worker(STARTED, 2).cluster(start_failures=2)

    change, _ = take_report(made.build(), report(workers=("c1-worker-1",)), NOW_MS)

    assert change is not None
    assert [(w.ordinal, w.stage, w.connected_ms) for w in change.workers] == [
        (1, CONNECTED, NOW_MS)
    ]
    assert change.cluster.start_failures == 0


def test_drains_begin_and_are_taken_back():
    made = rows().running(1).worker(CONNECTED).worker(DRAINING)

    change, _ = take_report(
        made.cluster(start_failures=1).build(),
        report(workers=("c1-worker-1",), draining=("c1-worker-0",)),
        NOW_MS,
    )

    assert change is not None
    assert [(w.ordinal, w.stage) for w in change.workers] == [
        (0, DRAINING),
        (1, CONNECTED),
    ]
    # They were known: nothing has connected that was not there before.
    assert change.cluster.start_failures == 1
    assert all(w.connected_ms != NOW_MS for w in change.workers)


def test_w16_names_that_nobody_knows_and_workers_that_left_change_nothing():
    made = rows().running(1).worker(STOPPING).worker(CONNECTED)
    names = ("c1-worker-0", "c1-worker-99", "c2-worker-0", "gpu", "c1-worker-x")

    change, beat = take_report(made.build(), report(workers=names, outsiders=3), NOW_MS)

    assert change is None
    assert beat.outsiders == 3


def test_a_target_counts_under_the_present_bounds_and_within_them():
    now = ADAPTIVE.build()

    high, _ = take_report(now, report(adaptive_id="a1", target=50), NOW_MS)
    low, _ = take_report(now, report(adaptive_id="a1", target=0), NOW_MS)
    old, _ = take_report(now, report(adaptive_id="a0", target=5), NOW_MS)
    none, _ = take_report(now, report(adaptive_id="a1"), NOW_MS)

    assert high is not None
    assert high.cluster.replicas == 6
    assert low is not None
    assert low.cluster.replicas == 1
    assert old is None
    assert none is None


def test_a_target_of_a_mode_that_has_ended_is_ignored():
    """The last call wins: a person's number is not overwritten by an old target."""
    change, _ = take_report(
        rows().running(2).build(), report(adaptive_id="a1", target=5), NOW_MS
    )

    assert change is None


def test_a_scheduler_that_was_silent_is_heard_again():
    change, _ = take_report(
        rows().running(0).cluster(is_silent=True).build(), report(), NOW_MS
    )

    assert change is not None
    assert not change.cluster.is_silent
    assert [e.reason for e in change.events] == ["SchedulerHeard"]


def test_w14_an_idle_cluster_is_found_at_the_beat_and_again_at_the_next():
    made = rows().running(0).config(idle_timeout_s=60).build()

    for _ in range(2):
        change, _ = take_report(made, report(idle_s=61), NOW_MS)
        assert change is not None
        assert change.cluster.reason == StopReason.IDLE
        assert not change.cluster.active


def test_a_cluster_that_waits_for_slow_workers_is_not_idle():
    """They are asked for, and there is nothing to compute until they come."""
    made = rows(worker_start_timeout_s=300).running(1).config(idle_timeout_s=60)
    asked = made.worker(WorkerStage.STARTED).cluster(asked_ms=NOW_MS - 200_000)

    waits, _ = take_report(asked.build(), report(idle_s=200), NOW_MS)
    comes, _ = take_report(
        asked.build(), report(idle_s=200, workers=("c1-worker-0",)), NOW_MS
    )
    late, _ = take_report(asked.build(), report(idle_s=361), NOW_MS + 160_000)

    assert waits is None
    assert comes is not None
    assert comes.cluster.active
    assert late is not None
    assert late.cluster.reason == StopReason.IDLE


def test_workers_that_come_and_go_by_themselves_keep_no_cluster():
    made = rows(worker_start_timeout_s=300).running(2).config(idle_timeout_s=60)
    flaps = made.worker(WorkerStage.STARTED).cluster(asked_ms=NOW_MS - 3_600_000)
    flaps = flaps.worker(CONNECTED, connected_ms=NOW_MS - 1000)

    change, _ = take_report(flaps.build(), report(idle_s=3600), NOW_MS)

    assert change is not None
    assert change.cluster.reason == StopReason.IDLE


def test_requests_of_people_say_when_workers_were_asked_for():
    scaled, _ = request_scale(rows().build(), 1, (), now_ms=NOW_MS)
    adapted, _ = request_adapt(
        rows().build(), (1, 2), (), default=1, adaptive_id="a", now_ms=NOW_MS
    )

    assert scaled.cluster.asked_ms == adapted.cluster.asked_ms == NOW_MS


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (rows().running(0).config(idle_timeout_s=60), 20),
        (rows().running(0), None),
        (rows().config(idle_timeout_s=60), None),
        (rows().running(0).config(idle_timeout_s=60).cluster(active=False), None),
        (rows().running(0).config(max_lifetime_s=75), 5),
        (rows().running(0).config(idle_timeout_s=30), None),
        (
            rows().running(1).config(idle_timeout_s=60).cluster(asked_ms=NOW_MS),
            60,
        ),
    ],
    ids=["idle", "for ever", "starting", "stopping", "life", "now", "waits"],
)
def test_the_time_of_the_next_decision_is_known(made, want):
    snapshot = made.build()
    change, beat = take_report(snapshot, report(idle_s=40), NOW_MS)

    assert find_due(snapshot, change, beat, NOW_MS) == want


def test_a_cluster_without_clients_is_found_at_the_beat():
    made = rows().running(0).config(no_client_timeout_s=60).build()

    change, _ = take_report(made, report(no_client_s=60), NOW_MS)

    assert change is not None
    assert change.cluster.reason == StopReason.NO_CLIENT


def test_a_cluster_that_only_starts_is_not_idle():
    made = rows().config(idle_timeout_s=60).build()

    change, _ = take_report(made, report(idle_s=61), NOW_MS)

    assert change is None


@pytest.mark.parametrize(
    "made", [rows().running(0).cluster(active=False), rows().ended()]
)
def test_reports_of_a_cluster_that_ends_change_nothing(made):
    change, _ = take_report(
        made.build(), report(ports=Ports(1), workers=("c1-worker-0",)), NOW_MS
    )

    assert change is None


def test_a_report_cannot_hold_what_no_database_takes():
    wild = report(
        idle_s=math.nan,
        no_client_s=-1.0,
        clients=2**40,
        unfinished=-5,
        held={"c1-worker-0": "x" * 10_000, "elsewhere": "y"},
        versions={f"package-{n}": "1" for n in range(100)},
    )

    _, beat = take_report(rows().running(0).build(), wild, NOW_MS)

    assert (beat.idle_s, beat.no_client_s, beat.unfinished) == (0, 0, 0)
    assert beat.clients == 2**31 - 1
    assert list(beat.held) == ["c1-worker-0"]
    assert len(beat.held["c1-worker-0"]) == 500
    assert len(beat.versions) == 20


def test_a_worker_that_is_reported_again_is_no_news():
    made = rows().running(2).worker(CONNECTED).worker(DRAINING)

    change, _ = take_report(
        made.build(),
        report(workers=("c1-worker-0",), draining=("c1-worker-1",)),
        NOW_MS,
    )

    assert change is None


# Replies.


def test_a_reply_says_what_is_wanted():
    reply = build_reply(ADAPTIVE.cluster(generation=7).build().cluster)

    assert (reply.generation, reply.replicas, reply.active) == (7, 2, True)
    assert reply.adaptive == Adaptive("a1", 1, 6)
    assert not build_reply(rows().ended().build().cluster).active


def test_a_reply_warns_of_the_end_once_that_was_announced():
    made = rows().running(0).config(max_lifetime_s=100)
    warned = made.cluster(is_warned=True).build()

    calm = build_reply(made.build().cluster, made.build().spec, 3.5)
    told = build_reply(warned.cluster, warned.spec)

    assert (calm.notice, calm.due_s) == ("", 3.5)
    assert "100 s after it was made (max_lifetime)" in told.notice
