import pytest

from gateway.domain.errors import InvalidRequest
from gateway.domain.scaling import (
    clamp_adapt,
    clamp_scale,
    clamp_target,
    derive_max_workers,
)


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"max_workers": 3}, 3, id="explicit"),
        pytest.param({"max_workers": 0}, 0, id="zero-is-a-cap"),
        pytest.param({"cores": (10, 2, 3)}, 2, id="cores-less-the-scheduler"),
        pytest.param({"cores": (1, 2, 1)}, 0, id="scheduler-alone-is-too-much"),
        pytest.param({"cores": (8, 1, 0)}, None, id="a-worker-that-takes-nothing"),
        pytest.param({"memory": (2**40, 0, 2**40 // 3)}, 3, id="bytes-are-exact"),
        pytest.param({"memory": (2**40, 0, 2**40 // 3 + 1)}, 2, id="one-byte-over"),
        pytest.param({"cores": (0.3, 0.1, 0.1)}, 2, id="thousandths-are-exact"),
        pytest.param(
            {"max_workers": 9, "cores": (5, 1, 1), "memory": (300, 100, 100)},
            2,
            id="the-lowest",
        ),
    ],
)
def test_the_cap_is_the_lowest_of_all_limits(limits, want) -> None:
    assert derive_max_workers(**limits) == want


def test_a_scale_beyond_the_cap_says_what_it_became() -> None:
    outcome = clamp_scale(7, 5)

    assert outcome.replicas == 5
    assert outcome.message == (
        "Scale request of 7 workers would exceed resource limit of 5 workers. "
        "Scaling to 5 instead."
    )


@pytest.mark.parametrize("max_workers", [None, 5])
def test_a_scale_within_the_cap_says_nothing(max_workers: int | None) -> None:
    assert clamp_scale(5, max_workers).message is None


def test_a_negative_scale_is_refused_in_the_peers_words() -> None:
    with pytest.raises(InvalidRequest, match="expects a non-negative integer, got -1"):
        clamp_scale(-1, None)


@pytest.mark.parametrize(
    ("asked", "max_workers", "want"),
    [
        pytest.param((None, None), None, (0, 100), id="nothing-named"),
        pytest.param((None, None), 5, (0, 5), id="cluster-names-the-maximum"),
        pytest.param((200, None), None, (200, 200), id="minimum-above-the-default"),
        pytest.param((2, 4), None, (2, 4), id="as-asked"),
        pytest.param((2, 400), None, (2, 400), id="a-named-maximum-is-no-default"),
        pytest.param((2, 9), 5, (2, 5), id="maximum-cut"),
        pytest.param((7, 9), 5, (5, 5), id="both-cut"),
        pytest.param((7, None), 5, (5, 5), id="minimum-cut"),
        pytest.param((0, 0), 5, (0, 0), id="none-at-all"),
    ],
)
def test_bounds_are_clamped(asked, max_workers, want) -> None:
    outcome = clamp_adapt(*asked, max_workers, default=100)

    assert (outcome.minimum, outcome.maximum) == want


@pytest.mark.parametrize(
    ("asked", "max_workers", "want"),
    [
        pytest.param((2, 9), 5, "Using `maximum=5, minimum=2` instead", id="cut"),
        pytest.param(
            (7, None), 5, "Using `maximum=5, minimum=5` instead", id="minimum-cut"
        ),
        pytest.param(
            (None, None), None, "Using `maximum=100, minimum=0` instead", id="unbounded"
        ),
    ],
)
def test_cut_bounds_are_told_as_programs_expect(asked, max_workers, want) -> None:
    message = clamp_adapt(*asked, max_workers, default=100).message

    assert message is not None
    assert want in message


@pytest.mark.parametrize("asked", [(None, None), (2, 4), (None, 5), (5, None)])
def test_bounds_within_the_cap_say_nothing(asked) -> None:
    assert clamp_adapt(*asked, 5, default=100).message is None


@pytest.mark.parametrize(
    ("asked", "field"),
    [((-1, None), "minimum"), ((None, -1), "maximum"), ((5, 4), "minimum")],
)
def test_impossible_bounds_are_refused_by_field(asked, field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        clamp_adapt(*asked, None, default=100)
    assert raised.value.field == field


def test_a_target_is_kept_within_its_bounds() -> None:
    assert [clamp_target(n, 2, 4) for n in range(6)] == [2, 2, 2, 3, 4, 4]
