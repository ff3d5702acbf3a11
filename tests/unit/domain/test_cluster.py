import pytest

from gateway.domain.cluster import (
    Cluster,
    ClusterPhase,
    PublicStatus,
    derive_status,
)
from gateway.domain.credentials import KeyPair


@pytest.mark.parametrize(
    ("phase", "active", "want"),
    [
        pytest.param(ClusterPhase.PENDING, True, "PENDING", id="starting"),
        pytest.param(ClusterPhase.RUNNING, True, "RUNNING", id="running"),
        pytest.param(ClusterPhase.PENDING, False, "STOPPING", id="stopped-early"),
        pytest.param(ClusterPhase.RUNNING, False, "STOPPING", id="stopping"),
        pytest.param(ClusterPhase.STOPPED, False, "STOPPED", id="stopped"),
        pytest.param(ClusterPhase.FAILED, True, "FAILED", id="failed"),
        pytest.param(ClusterPhase.FAILED, False, "FAILED", id="failed-then-deleted"),
    ],
)
def test_the_public_status_follows_from_phase_and_wish(
    phase: ClusterPhase, active: bool, want: str
) -> None:
    assert derive_status(phase, active=active) == want


def test_a_cluster_is_listed_while_it_is_pending_or_running() -> None:
    assert [s for s in PublicStatus if s.is_active] == ["PENDING", "RUNNING"]


def test_what_has_ended_is_the_same_in_both_spellings() -> None:
    want = ["STOPPED", "FAILED"]

    assert [s for s in PublicStatus if s.is_terminal] == want
    assert [p.upper() for p in ClusterPhase if p.is_terminal] == want


def test_a_printed_cluster_shows_no_key() -> None:
    cluster = Cluster(
        name="c1",
        owner="alice",
        status=PublicStatus.RUNNING,
        version=1,
        start_ms=0,
        client=KeyPair(certificate="CERT", key="sesame"),
    )

    assert "sesame" not in repr(cluster)
