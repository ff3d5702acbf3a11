from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.cluster import StopReason
from gateway.domain.lifetime import (
    FRESH_S,
    Beat,
    Lifetimes,
    count_awaited_s,
    decide_stop,
    find_due_s,
)

seconds = st.integers(0, 10_000)
lifetimes = st.builds(Lifetimes, seconds, seconds, seconds)
beats = st.builds(
    Beat, st.integers(0, int(FRESH_S)), seconds, seconds, st.none() | seconds
)


@given(lifetimes, seconds, beats)
def test_a_cluster_in_use_within_its_lifetime_goes_on(limits, age_s, beat) -> None:
    limits = replace(limits, max_lifetime_s=0)

    assert (
        decide_stop(limits, age_s=age_s, beat=replace(beat, idle_s=0, no_client_s=0))
        is None
    )


@given(lifetimes, seconds, beats)
def test_a_stop_once_due_stays_due_while_nothing_changes(limits, age_s, beat) -> None:
    first = decide_stop(limits, age_s=age_s, beat=beat)
    later = replace(beat, idle_s=beat.idle_s + 1, no_client_s=beat.no_client_s + 1)

    if first is not None:
        assert decide_stop(limits, age_s=age_s + 1, beat=later) is not None


@given(lifetimes, seconds, beats)
def test_silence_alone_stops_nothing_but_at_the_lifetimes_end(
    limits, age_s, beat
) -> None:
    silent = replace(beat, age_s=FRESH_S + 1)

    decision = decide_stop(limits, age_s=age_s, beat=silent)

    assert decision is None or decision[0] is StopReason.LIFETIME


@given(lifetimes, seconds, beats, seconds)
def test_nothing_is_decided_before_it_is_due_and_all_of_it_then(
    limits, age_s, beat, later_s
) -> None:
    beat = replace(beat, age_s=0)
    due_s = find_due_s(limits, age_s=age_s, beat=beat)
    awaited_s = None if beat.awaited_s is None else beat.awaited_s + later_s
    unchanged = Beat(0, beat.idle_s + later_s, beat.no_client_s + later_s, awaited_s)

    decision = decide_stop(limits, age_s=age_s + later_s, beat=unchanged)

    assert (decision is not None) == (due_s is not None and later_s >= due_s)


@given(st.none() | seconds, seconds, st.integers(-5, 5), st.none() | seconds, seconds)
def test_waiting_that_is_over_grows_old_like_everything_else(
    asked_s, patience_s, missing, arrived_s, more_s
) -> None:
    """So no cluster is kept for ever by workers that do not come, or come and go."""
    now = count_awaited_s(
        asked_s=asked_s, patience_s=patience_s, missing=missing, arrived_s=arrived_s
    )
    later = count_awaited_s(
        asked_s=None if asked_s is None else asked_s + more_s,
        patience_s=patience_s,
        missing=missing,
        arrived_s=None if arrived_s is None else arrived_s + more_s,
    )

    if now is None:
        assert later is None
    else:
        assert later is not None
        assert asked_s is not None
        assert now <= later <= now + more_s
        assert later >= asked_s + more_s - patience_s
