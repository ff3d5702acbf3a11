from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.cluster import StopReason
from gateway.domain.lifetime import FRESH_S, Beat, Lifetimes, decide_stop

seconds = st.integers(0, 10_000)
lifetimes = st.builds(Lifetimes, seconds, seconds, seconds)
beats = st.builds(Beat, st.integers(0, int(FRESH_S)), seconds, seconds)


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
