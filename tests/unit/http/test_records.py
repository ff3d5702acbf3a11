import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway.domain.cluster import Cluster, PublicStatus
from gateway.domain.user import User
from gateway.http.links import DashboardLinks
from gateway.http.records import Records

ALICE = User("alice")
LINK_S = 4 * 3600.0


class SteppedClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def records(clock: SteppedClock) -> Records:
    return Records(DashboardLinks([b"k" * 32], LINK_S, clock))


def a_cluster(name: str, version: int = 1) -> Cluster:
    return Cluster(
        name=name,
        owner="alice",
        status=PublicStatus.RUNNING,
        version=version,
        start_ms=1,
        has_dashboard=True,
    )


def test_the_same_tuple_gives_the_same_text(records: Records) -> None:
    clusters = (a_cluster("c1"), a_cluster("c2"))

    first = records.encode_list(clusters, ALICE)

    assert records.encode_list(clusters, ALICE) is first
    assert list(json.loads(first)) == ["c1", "c2"]


def test_another_tuple_gives_its_own_text(records: Records) -> None:
    records.encode_list((a_cluster("c1"),), ALICE)

    changed = replace(a_cluster("c1", version=2), status=PublicStatus.STOPPING)

    found = json.loads(records.encode_list((changed,), ALICE))
    assert found["c1"]["status"] == "STOPPING"


def test_a_list_that_may_have_been_changed_is_written_anew(records: Records) -> None:
    clusters = [a_cluster("c1")]
    records.encode_list(clusters, ALICE)
    clusters.append(a_cluster("c2"))

    assert list(json.loads(records.encode_list(clusters, ALICE))) == ["c1", "c2"]


def test_links_of_one_viewer_are_not_shown_to_another(records: Records) -> None:
    clusters = (a_cluster("c1"),)

    to_alice = records.encode_list(clusters, ALICE)
    to_admin = records.encode_list(clusters, User("root", admin=True))

    assert json.loads(to_alice)["c1"]["dashboard_route"]
    assert to_alice != to_admin


def test_a_text_does_not_outlive_its_links(
    records: Records, clock: SteppedClock
) -> None:
    clusters = (a_cluster("c1"),)
    before = records.encode_list(clusters, ALICE)

    clock.time += timedelta(seconds=LINK_S)

    assert records.encode_list(clusters, ALICE) != before
