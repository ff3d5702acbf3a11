"""How long our own writes lie over the cache."""

import pytest

from backends.kubernetes.observed.overlay import Overlay
from backends.kubernetes.observed.pods import parse_pod
from tests.support.kube_pods import a_pod


def a_view(ordinal=0, *, version=1, cluster="c"):
    return parse_pod(a_pod(ordinal, version=version, cluster=cluster))


def versions(overlay, cached=()):
    return [v.resource_version for v in overlay.lay_over(cached, cluster="c")]


@pytest.fixture
def overlay():
    return Overlay()


def test_write_lies_over_an_older_cache(overlay) -> None:
    overlay.record(a_view(version=7))

    assert versions(overlay) == ["7"]
    assert versions(overlay, [a_view(version=5)]) == ["7"]
    assert versions(overlay, [a_view(1, version=5)]) == ["5", "7"]


def test_writes_of_another_cluster_stay_out(overlay) -> None:
    overlay.record(a_view(version=7, cluster="d"))

    assert versions(overlay) == []
    assert versions(overlay, [a_view(version=5)]) == ["5"]


@pytest.mark.parametrize(
    ("reached", "want_versions"),
    [
        pytest.param(9, ["10"], id="before it, though its text sorts after"),
        pytest.param(10, [], id="it was seen"),
        pytest.param(11, [], id="list or event after it"),
    ],
)
def test_write_is_forgotten_once_the_informer_reaches_it(
    overlay, reached, want_versions
) -> None:
    overlay.record(a_view(version=10))

    overlay.reached(reached)

    assert want_versions == versions(overlay)


def test_a_later_write_to_the_same_pod_outlives_the_earlier_one(overlay) -> None:
    overlay.record(a_view(version=7))
    overlay.record(a_view(version=9))
    overlay.record(a_view(1, version=8))

    overlay.reached(8)

    assert versions(overlay) == ["9"]
    overlay.reached(9)
    assert versions(overlay) == []


@pytest.mark.parametrize("then", [8, 3], ids=["nothing since", "older list since"])
def test_answer_that_comes_after_its_event_is_no_news(overlay, then) -> None:
    overlay.reached(8)
    overlay.reached(then)

    overlay.record(a_view(version=7))

    assert versions(overlay) == []
