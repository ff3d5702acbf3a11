from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.scaling import (
    clamp_adapt,
    clamp_scale,
    clamp_target,
    derive_max_workers,
    to_thousandths,
)

counts = st.integers(0, 10_000)
maybe = st.none() | counts
amounts = st.integers(0, 10**7).map(lambda n: n / 1000)


@given(counts, maybe)
def test_a_scale_is_never_above_the_cap_and_says_so_when_cut(count, cap) -> None:
    outcome = clamp_scale(count, cap)

    assert outcome.replicas <= count
    assert cap is None or outcome.replicas <= cap
    assert (outcome.message is None) == (outcome.replicas == count)


@given(counts, maybe)
def test_scaling_again_to_what_was_accepted_changes_nothing(count, cap) -> None:
    accepted = clamp_scale(count, cap).replicas

    assert clamp_scale(accepted, cap).message is None


@given(maybe, maybe, maybe, st.integers(1, 1000))
def test_bounds_are_ordered_and_within_every_limit(low, high, cap, default) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low

    outcome = clamp_adapt(low, high, cap, default=default)

    assert 0 <= outcome.minimum <= outcome.maximum
    assert cap is None or outcome.maximum <= cap
    assert high is None or outcome.maximum <= high
    assert outcome.minimum <= (low or 0)
    if cap is None and high is None:
        assert outcome.maximum == max(default, low or 0)


@given(maybe, maybe, maybe, st.integers(1, 1000))
def test_accepted_bounds_are_accepted_again_as_they_are(
    low, high, cap, default
) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low
    first = clamp_adapt(low, high, cap, default=default)

    again = clamp_adapt(first.minimum, first.maximum, cap, default=default)

    assert (again.minimum, again.maximum, again.message) == (
        first.minimum,
        first.maximum,
        None,
    )


@given(counts, counts, counts)
def test_a_target_is_within_its_bounds_and_stays_there(target, one, other) -> None:
    low, high = sorted((one, other))

    clamped = clamp_target(target, low, high)

    assert low <= clamped <= high
    assert clamp_target(clamped, low, high) == clamped
    assert clamped == target or not low <= target <= high


@given(maybe, amounts, amounts, amounts)
def test_the_derived_cap_fits_and_one_more_would_not(
    explicit, cap, scheduler, worker
) -> None:
    most = derive_max_workers(max_workers=explicit, cores=(cap, scheduler, worker))

    def taken(workers: int) -> int:
        return to_thousandths(scheduler) + workers * to_thousandths(worker)

    if worker == 0:
        assert most == explicit
        return
    assert most is not None
    assert explicit is None or most <= explicit
    assert most == 0 or taken(most) <= to_thousandths(cap)
    assert most == explicit or taken(most + 1) > to_thousandths(cap)
