"""Which clusters the proxy is told of."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.database.routes import Route
from backends.kubernetes.backend.route_table import is_routed, list_routes
from backends.kubernetes.crd.values import (
    ClusterSpec,
    ClusterStatus,
    Condition,
    DaskCluster,
)
from backends.routing.table import select_routes
from gateway.domain.cluster import ClusterPhase

READY = Condition(type="SchedulerReady", status="True", reason="Ready")
NOT_READY = Condition(type="SchedulerReady", status="False", reason="Starting")
OTHER = Condition(type="SpecValid", status="True", reason="Accepted")


def cluster(name: str = "c1", **changes: Any) -> DaskCluster:
    made = DaskCluster(
        name=name,
        namespace="gateway",
        uid=f"uid-{name}",
        resource_version="1",
        spec=ClusterSpec(target_namespace="team"),
        status=ClusterStatus(phase=ClusterPhase.RUNNING),
    )
    return msgspec.structs.replace(made, **changes)


def status(phase: ClusterPhase, *conditions: Condition) -> ClusterStatus:
    return ClusterStatus(phase=phase, conditions=conditions)


def test_a_route_leads_to_the_clusters_service_in_its_namespace() -> None:
    assert list_routes([cluster()]) == (Route("c1", "dask-c1.team.svc", 8786, 8787),)


@pytest.mark.parametrize(
    ("given_status", "expected"),
    [
        (status(ClusterPhase.PENDING), False),
        (status(ClusterPhase.PENDING, OTHER, NOT_READY), False),
        # The controller proves the route before it calls the cluster running.
        (status(ClusterPhase.PENDING, OTHER, READY), True),
        # A probe that fails for once cuts nobody off.
        (status(ClusterPhase.RUNNING, NOT_READY), True),
        (status(ClusterPhase.STOPPED, READY), False),
        (status(ClusterPhase.FAILED, READY), False),
    ],
)
def test_a_cluster_has_a_route_while_its_scheduler_answers(
    given_status: ClusterStatus, *, expected: bool
) -> None:
    assert is_routed(cluster(status=given_status)) is expected


@pytest.mark.parametrize(
    "changes",
    [
        {"is_deleting": True},
        {"spec": ClusterSpec(target_namespace="team", active=False)},
        {"spec": ClusterSpec()},
        {"spec": ClusterSpec(target_namespace="a`) || Host(`b")},
        {"name": "9lives"},
    ],
)
def test_what_ends_or_does_not_fit_a_rule_has_none(changes: dict[str, Any]) -> None:
    assert list_routes([cluster(**changes)]) == ()


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True),
            st.text(max_size=70),
        ),
        unique_by=lambda entry: entry[0],
    )
)
def test_whatever_is_listed_the_table_takes_in_one_order(
    entries: list[tuple[str, str]],
) -> None:
    clusters = [
        cluster(name, spec=ClusterSpec(target_namespace=namespace))
        for name, namespace in entries
    ]

    routes = list_routes(clusters)

    chosen, refused = select_routes(routes, frozenset())
    assert (chosen, refused) == (routes, ())
    assert routes == list_routes(reversed(clusters))
