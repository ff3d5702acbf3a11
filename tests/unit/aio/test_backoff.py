import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.aio.backoff import Backoff


@given(failures=st.integers(1, 10_000))
def test_a_delay_is_never_negative_nor_above_the_cap(failures):
    assert 0 <= Backoff(0.5, 15).delay_s(failures) <= 15


def test_the_bound_doubles_until_the_cap_and_starts_again_after_a_reset():
    backoff = Backoff(0.5, 3, uniform=lambda _low, high: high)

    assert [backoff.next_s() for _ in range(4)] == [0.5, 1, 2, 3]
    backoff.reset()
    assert backoff.next_s() == 0.5
    assert backoff.failures == 1


@pytest.mark.parametrize(("base_s", "cap_s"), [(0, 1), (-1, 1), (2, 1)])
def test_bounds_that_make_no_sense_are_refused(base_s, cap_s):
    with pytest.raises(ValueError, match="base_s"):
        Backoff(base_s, cap_s)


async def test_sleep_waits_for_the_next_delay():
    backoff = Backoff(0.001, 0.001)
    await backoff.sleep()

    assert backoff.failures == 1
