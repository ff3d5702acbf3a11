"""Patches are small, and each writer's touch its own fields alone."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kubernetes.crd.formatting import (
    API_SERVER_FIELDS,
    format_adapt_patch,
    format_first_sync_patch,
    format_first_worker_patch,
    format_new_cluster,
    format_precondition,
    format_scale_patch,
    format_status,
    format_status_patch,
    format_stop_patch,
    format_target_patch,
    join_patches,
)
from backends.kubernetes.crd.lifetimes import Lifetimes, resolve_lifetimes
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    ClusterSpec,
    ClusterStatus,
    Condition,
    LifetimesSpec,
    Owner,
    WorkersStatus,
)
from gateway.domain.cluster import ClusterPhase

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def patch_of(before, after):
    return format_status_patch(before, after, resource_version="7")


def test_only_what_differs_is_written_and_always_what_is_compared() -> None:
    before = ClusterStatus(start_time=NOW, host="h", workers=WorkersStatus(next=1))
    after = ClusterStatus(
        start_time=NOW, host="h", workers=WorkersStatus(next=2, ready=1)
    )

    assert patch_of(before, after) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"workers": {"next": 2, "ready": 1}},
    }
    assert patch_of(after, after) == {"metadata": {"resourceVersion": "7"}}


def test_the_first_write_shows_the_phase_and_the_counts() -> None:
    status = patch_of(ClusterStatus(), ClusterStatus(start_time=NOW))["status"]

    assert status["phase"] == "Pending"
    assert status["workers"] == {"wanted": 0, "ready": 0}


def test_a_number_that_falls_to_zero_is_written_as_zero() -> None:
    before = ClusterStatus(start_time=NOW, workers=WorkersStatus(ready=3, starting=1))
    after = ClusterStatus(start_time=NOW)

    assert patch_of(before, after)["status"] == {
        "workers": {"ready": 0, "starting": None}
    }


conditions = st.builds(
    Condition,
    type=st.sampled_from(["A", "B"]),
    status=st.sampled_from(["True", "False"]),
    reason=st.sampled_from(["X", "Y"]),
    last_transition_time=st.just(NOW),
)
statuses = st.builds(
    ClusterStatus,
    phase=st.sampled_from(list(ClusterPhase)),
    reason=st.sampled_from(["", "r"]),
    workers=st.builds(
        WorkersStatus,
        next=st.integers(0, 3),
        members=st.sampled_from([None, "", "0-2"]),
        wanted=st.integers(0, 2),
        ready=st.integers(0, 2),
    ),
    adaptive_target=st.sampled_from([None, AdaptiveTarget(id="i", target=1)]),
    first_sync_time=st.sampled_from([None, NOW]),
    first_worker_time=st.sampled_from([None, NOW]),
    conditions=st.lists(conditions, max_size=2).map(tuple),
    log_tail=st.lists(st.just("line"), max_size=2).map(tuple),
    start_time=st.sampled_from([None, NOW]),
    completion_time=st.sampled_from([None, NOW]),
)


def merge(base, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


@given(statuses, statuses)
def test_a_merge_of_the_patch_gives_the_status_but_for_the_api_servers_fields(
    before: ClusterStatus, after: ClusterStatus
) -> None:
    patch = patch_of(before, after).get("status", {})

    merged = merge(format_status(before), patch)

    assert not API_SERVER_FIELDS & patch.keys()
    raw = {"metadata": {"name": "c"}, "status": merged}
    read = parse_dask_cluster(raw).status
    assert format_status(read) == {
        **{k: v for k, v in format_status(after).items() if k not in API_SERVER_FIELDS},
        **{k: v for k, v in format_status(before).items() if k in API_SERVER_FIELDS},
    }


def test_the_api_servers_patches_touch_its_own_fields_alone() -> None:
    target = format_target_patch(AdaptiveTarget(id="i", target=0))
    patches = [target, format_first_sync_patch(NOW), format_first_worker_patch(NOW)]

    fields = [key for patch in patches for key in patch["status"]]

    assert [list(patch) for patch in patches] == [["status"]] * 3
    assert set(fields) == API_SERVER_FIELDS
    assert target["status"]["adaptiveTarget"] == {"id": "i", "target": 0}
    assert patches[1]["status"]["firstSyncTime"] == "2026-01-02T03:04:05Z"


def test_a_stop_is_one_patch_with_who_and_why() -> None:
    assert format_stop_patch("IdleTimeout", "idle") == {
        "metadata": {
            "annotations": {
                "daskfleet.io/stop-reason": "IdleTimeout",
                "daskfleet.io/stop-message": "idle",
            }
        },
        "spec": {"active": False},
    }


def test_scale_ends_adaptive_mode_in_the_same_patch() -> None:
    assert format_scale_patch(3)["spec"]["workers"] == {"replicas": 3, "adaptive": None}


def test_a_minimum_of_zero_is_written() -> None:
    bounds = AdaptiveSpec(id="i", minimum=0, maximum=0)

    assert format_adapt_patch(bounds)["spec"]["workers"]["adaptive"] == {
        "id": "i",
        "minimum": 0,
        "maximum": 0,
    }


@pytest.mark.parametrize("owner", [None, {"kind": "ConfigMap", "name": "anchor"}])
def test_a_new_object_is_sparse_and_owned_by_the_chart(owner) -> None:
    spec = ClusterSpec(owner=Owner(user="alice"), target_namespace="team")

    new = format_new_cluster("c1", "dask", spec, labels={"a": "b"}, owner=owner)

    assert new["spec"] == {"owner": {"user": "alice"}, "targetNamespace": "team"}
    assert new["metadata"].get("ownerReferences") == (
        None if owner is None else [owner]
    )


def test_zero_is_a_lifetime_of_its_own() -> None:
    spec = ClusterSpec(lifetimes=LifetimesSpec(max_lifetime_seconds=0))

    found = resolve_lifetimes(spec, Lifetimes(max_lifetime_seconds=9))

    assert found.max_lifetime_seconds == 0


def test_annotations_are_written_where_there_are_some() -> None:
    made = format_new_cluster(
        "c1", "gateway", ClusterSpec(), labels={}, annotations={"a": "b"}
    )

    assert made["metadata"]["annotations"] == {"a": "b"}


def test_a_precondition_is_of_the_object_or_of_a_version_of_it() -> None:
    exact = format_precondition("u", "7")

    assert format_precondition("u") == {"metadata": {"uid": "u"}}
    assert exact == {"metadata": {"uid": "u", "resourceVersion": "7"}}


def test_joined_patches_keep_both_and_the_later_wins() -> None:
    joined = join_patches([{"a": {"b": 1, "c": 1}, "d": 1}, {"a": {"c": 2}, "d": {}}])

    assert joined == {"a": {"b": 1, "c": 2}, "d": {}}
