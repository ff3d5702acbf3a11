import pytest

from gateway.domain.cluster import StopReason
from gateway.domain.lifetime import FRESH_S, Beat, Lifetimes, decide_stop

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
