"""What a status tells when its controller is away."""

from datetime import UTC, datetime

import pytest

from backends.kubernetes.backend.kept import (
    build_kept_events,
    list_kept_lines,
    merge_events,
)
from backends.kubernetes.crd.values import ClusterStatus, Condition, DaskCluster
from gateway.domain.cluster import ClusterEvent, ClusterPhase, EventType
from gateway.ports import LogQuery

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)


def cluster(**status: object) -> DaskCluster:
    return DaskCluster(
        name="c1",
        namespace="gateway",
        uid="u",
        resource_version="7",
        status=ClusterStatus(**status),
    )


def condition(reason: str, message: str, *, status: str = "False") -> Condition:
    return Condition(
        type="SchedulerReady",
        status=status,
        reason=reason,
        message=message,
        last_transition_time=NOW,
    )


def test_what_does_not_hold_is_told_with_its_reason() -> None:
    found = build_kept_events(
        cluster(
            conditions=(
                condition("Accepted", "", status="True"),
                condition("ImagePullFailed", "cannot pull its image"),
                condition("WaitingForScheduler", ""),
            )
        )
    )

    assert found == (
        ClusterEvent(
            NOW_MS, EventType.WARNING, "ImagePullFailed", "cannot pull its image"
        ),
    )


def test_a_condition_without_a_time_comes_first() -> None:
    undated = Condition(type="WorkersReady", status="False", reason="R", message="m")

    found = build_kept_events(cluster(conditions=(condition("S", "t"), undated)))

    assert [event.reason for event in found] == ["R", "S"]


@pytest.mark.parametrize(
    ("status", "event"),
    [
        (
            {
                "phase": ClusterPhase.FAILED,
                "reason": "SchedulerEnded",
                "message": "exit status 3",
                "completion_time": NOW,
                "conditions": (condition("SchedulerEnded", "exit status 3"),),
            },
            ClusterEvent(NOW_MS, EventType.WARNING, "SchedulerEnded", "exit status 3"),
        ),
        (
            {
                "phase": ClusterPhase.STOPPED,
                "stop_reason": "StoppedByUser",
                "stop_message": "by alice",
            },
            ClusterEvent(0, EventType.NORMAL, "StoppedByUser", "by alice"),
        ),
    ],
)
def test_an_end_is_told_once(status: dict[str, object], event: ClusterEvent) -> None:
    assert build_kept_events(cluster(**status)) == (event,)


def test_what_was_told_is_not_repeated() -> None:
    told = [ClusterEvent(9, EventType.NORMAL, "Running", "live")]
    kept = [
        ClusterEvent(3, EventType.NORMAL, "Running", "kept"),
        ClusterEvent(5, EventType.WARNING, "QuotaExceeded", "kept"),
    ]

    found = merge_events(told, kept)

    assert [(event.reason, event.message) for event in found] == [
        ("QuotaExceeded", "kept"),
        ("Running", "live"),
    ]


@pytest.mark.parametrize(
    ("reason", "query", "lines"),
    [
        ("SchedulerEnded", LogQuery(tail=2), ("b", "c")),
        ("SchedulerEnded", LogQuery(tail=100), ("a", "b", "c")),
        ("SchedulerEnded", LogQuery(tail=0), ()),
        ("SchedulerEnded", LogQuery(component="worker"), ()),
        ("WorkersCrashing", LogQuery(component="worker"), ("a", "b", "c")),
        ("WorkersCrashing", LogQuery(component="worker", worker="c1-worker-0"), ()),
        ("WorkersCrashing", LogQuery(), ()),
    ],
)
def test_lines_are_kept_of_the_process_that_ended_the_cluster(
    reason: str, query: LogQuery, lines: tuple[str, ...]
) -> None:
    ended = cluster(reason=reason, log_tail=("a", "b", "c"))

    assert list_kept_lines(ended, query) == lines
