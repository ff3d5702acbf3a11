import pytest

from gateway.domain.cluster import StopReason
from gateway.domain.lifetime import (
    FRESH_S,
    Beat,
    Lifetimes,
    count_awaited_s,
    decide_stop,
    describe_last_end,
    find_due_s,
    find_warning_s,
)

NEVER = Lifetimes(idle_timeout_s=0, no_client_timeout_s=0, max_lifetime_s=0)
ALL = Lifetimes(idle_timeout_s=60, no_client_timeout_s=30, max_lifetime_s=600)


@pytest.mark.parametrize(
    ("age_s", "beat", "want"),
    [
        pytest.param(599, Beat(1, 59, 29), None, id="in-use"),
        pytest.param(1, Beat(1, 60, 0), StopReason.IDLE, id="idle"),
        pytest.param(1, Beat(1, 0, 30), StopReason.NO_CLIENT, id="no-client"),
        pytest.param(1, Beat(1, 60, 30), StopReason.IDLE, id="idle-is-named-first"),
        pytest.param(600, Beat(1, 0, 0), StopReason.LIFETIME, id="too-old"),
        pytest.param(600, None, StopReason.LIFETIME, id="too-old-and-silent"),
        pytest.param(1, None, None, id="no-beat-yet"),
        pytest.param(1, Beat(FRESH_S, 60, 0), StopReason.IDLE, id="just-fresh"),
        pytest.param(1, Beat(FRESH_S + 1, 60, 30), None, id="old-facts"),
    ],
)
def test_a_cluster_stops_for_the_first_reason_that_holds(
    age_s: float, beat: Beat | None, want: StopReason | None
) -> None:
    decision = decide_stop(ALL, age_s=age_s, beat=beat)

    assert (decision and decision[0]) == want


def test_zero_is_for_ever() -> None:
    assert decide_stop(NEVER, age_s=1e9, beat=Beat(0, 1e9, 1e9)) is None


def test_the_text_names_the_setting() -> None:
    decision = decide_stop(ALL, age_s=1, beat=Beat(1, 0, 31))

    assert decision == (StopReason.NO_CLIENT, "no client for 30 s (no_client_timeout)")


@pytest.mark.parametrize(
    ("awaited_s", "want"),
    [(None, StopReason.IDLE), (0, None), (59.9, None), (60, StopReason.IDLE)],
)
def test_a_cluster_that_waited_for_its_workers_was_not_idle(awaited_s, want) -> None:
    beat = Beat(age_s=1, idle_s=100, no_client_s=0, awaited_s=awaited_s)

    decision = decide_stop(ALL, age_s=1, beat=beat)

    assert (decision and decision[0]) == want


@pytest.mark.parametrize(
    ("asked_s", "missing", "arrived_s", "want"),
    [
        pytest.param(None, 3, None, None, id="nobody-asked"),
        pytest.param(10, 3, None, 0, id="just-asked"),
        pytest.param(10, 1, 2, 0, id="one-is-there"),
        pytest.param(60, 1, 2, 0, id="at-the-end-of-patience"),
        pytest.param(75, 1, 2, 15, id="patience-is-over"),
        pytest.param(75, 1, None, 15, id="none-came"),
        pytest.param(50, 0, 20, 20, id="all-came"),
        pytest.param(100, 0, 20, 40, id="the-last-came-too-late"),
        pytest.param(100, 0, 100, 100, id="came-at-once"),
        pytest.param(50, 0, 51, None, id="were-there-before"),
        pytest.param(50, -2, 20, 20, id="more-than-wanted"),
        pytest.param(50, 0, None, None, id="none-is-wanted"),
    ],
)
def test_waiting_counts_from_a_request_until_the_workers_came_or_are_late(
    asked_s, missing, arrived_s, want
) -> None:
    awaited_s = count_awaited_s(
        asked_s=asked_s, patience_s=60, missing=missing, arrived_s=arrived_s
    )

    assert awaited_s == want


@pytest.mark.parametrize(
    ("limits", "beat", "want"),
    [
        pytest.param(NEVER, Beat(0, 5, 5), None, id="for-ever"),
        pytest.param(ALL, Beat(0, 0, 0), 30, id="no-client-from-now-on"),
        pytest.param(ALL, Beat(0, 55, 0), 5, id="idle-soon"),
        pytest.param(ALL, Beat(0, 55, 0, awaited_s=20), 30, id="it-waited"),
        pytest.param(ALL, Beat(0, 99, 0), 0, id="over"),
        pytest.param(Lifetimes(0, 0, 120), Beat(0, 99, 99), 20, id="life"),
    ],
)
def test_what_is_due_first_is_named(limits, beat, want) -> None:
    assert find_due_s(limits, age_s=100, beat=beat) == want


def test_people_are_warned_when_four_fifths_of_a_life_are_over() -> None:
    assert find_warning_s(ALL) == 480
    assert find_warning_s(NEVER) is None
    assert describe_last_end(1_000, ALL) == (
        "this cluster ends at 1970-01-01 00:10:01 UTC, "
        "600 s after it was made (max_lifetime)"
    )
