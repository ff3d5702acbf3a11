"""What is made of a DaskCluster, whatever somebody wrote into it."""

import json

import pytest

from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    ClusterStatus,
    Problem,
    WorkersSpec,
    WorkersStatus,
)
from gateway.domain.cluster import ClusterPhase

SOUND = {"owner": {"user": "alice"}, "targetNamespace": "team-a"}


def a_raw(spec=None, status=None, **metadata):
    return {
        "metadata": {"name": "c1", "namespace": "dask", "uid": "u", **metadata},
        "spec": SOUND if spec is None else spec,
        "status": status,
    }


def problems(**changes):
    return parse_dask_cluster(a_raw({**SOUND, **changes})).problems


def test_a_sound_object_has_no_problems_and_the_meaning_of_what_is_absent() -> None:
    cluster = parse_dask_cluster(a_raw())

    assert cluster.problems == ()
    assert cluster.spec.active
    assert cluster.spec.workers == WorkersSpec(replicas=0)
    assert cluster.status == ClusterStatus(phase=ClusterPhase.PENDING)
    assert cluster.wanted_workers == 0


def test_bytes_and_mappings_give_the_same() -> None:
    raw = a_raw(resourceVersion="7", creationTimestamp="2026-01-02T03:04:05Z")

    assert parse_dask_cluster(json.dumps(raw).encode()) == parse_dask_cluster(raw)


def test_stop_reason_and_message_come_from_the_annotations() -> None:
    stop = {"daskfleet.io/stop-reason": "IdleTimeout", "daskfleet.io/stop-message": "m"}

    cluster = parse_dask_cluster(a_raw(annotations=stop, labels={"a": "b"}))

    assert (cluster.stop_reason, cluster.stop_message) == ("IdleTimeout", "m")
    assert cluster.labels == {"a": "b"}


def test_an_object_that_somebody_deletes_says_so() -> None:
    deleted = a_raw(deletionTimestamp="2026-01-02T03:04:05Z")

    assert parse_dask_cluster(deleted).is_deleting


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", {}, {"metadata": {}}])
def test_what_is_no_object_of_an_api_server_is_refused(raw) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_dask_cluster(raw)


@pytest.mark.parametrize(
    ("changes", "want_field"),
    [
        pytest.param({"owner": {}}, "spec.owner.user", id="no owner"),
        pytest.param({"owner": {"user": "x" * 254}}, "spec.owner.user", id="long"),
        pytest.param({"owner": {"user": "a\nb"}}, "spec.owner.user", id="two lines"),
        pytest.param({"targetNamespace": "../x"}, "spec.targetNamespace", id="path"),
        pytest.param({"targetNamespace": ""}, "spec.targetNamespace", id="empty"),
        pytest.param({"targetNamespace": 7}, "spec.targetNamespace", id="number"),
        pytest.param(
            {"workers": {"replicas": -1}}, "spec.workers.replicas", id="negative"
        ),
        pytest.param(
            {"workers": {"replicas": 10**6}}, "spec.workers.replicas", id="too many"
        ),
        pytest.param(
            {"workers": {"replicas": "3"}}, "spec.workers.replicas", id="text"
        ),
        pytest.param(
            {"workers": {"adaptive": {"minimum": 2, "maximum": 1}}},
            "spec.workers.adaptive",
            id="crossed",
        ),
        pytest.param(
            {"lifetimes": {"idleTimeoutSeconds": -1}},
            "spec.lifetimes.idleTimeoutSeconds",
            id="negative time",
        ),
        pytest.param(
            {"limits": {"maxWorkers": -1}}, "spec.limits.maxWorkers", id="negative cap"
        ),
        pytest.param({"retentionSeconds": -1}, "spec.retentionSeconds", id="retention"),
        pytest.param({"worker": {"threads": -1}}, "spec.worker.threads", id="threads"),
        pytest.param({"active": "no"}, "spec.active", id="no truth"),
        pytest.param(
            {"scheduler": {"command": [1]}}, "spec.scheduler.command[0]", id="word"
        ),
    ],
)
def test_what_would_be_dangerous_is_a_problem_with_its_path(
    changes, want_field
) -> None:
    assert want_field in [problem.field for problem in problems(**changes)]


def test_a_name_that_no_service_can_have_is_a_problem() -> None:
    cluster = parse_dask_cluster(a_raw(name="0" * 60))

    assert [p.field for p in cluster.problems] == ["metadata.name"]


@pytest.mark.parametrize("spec", ["text", 7, [], [1]])
def test_a_spec_that_is_no_map_is_as_good_as_none(spec) -> None:
    fields = [p.field for p in parse_dask_cluster(a_raw(spec)).problems]

    assert fields == ["spec.owner.user", "spec.targetNamespace"]


def test_a_spec_that_no_json_can_be_is_read_as_none_and_told() -> None:
    problems = parse_dask_cluster(a_raw({**SOUND, 7: "x"})).problems

    assert [p.field for p in problems] == [
        "spec",
        "spec.owner.user",
        "spec.targetNamespace",
    ]


def test_a_cluster_belongs_to_itself_as_other_objects_do_to_it() -> None:
    cluster = parse_dask_cluster(a_raw())

    assert cluster.cluster == cluster.name


def test_one_field_is_told_once_and_the_others_are_still_read() -> None:
    cluster = parse_dask_cluster(a_raw({**SOUND, "targetNamespace": 7, "workers": 3}))

    assert sorted(cluster.problems) == [
        Problem("spec.targetNamespace", "expected `str`, got `int`"),
        Problem("spec.workers", "expected `object`, got `int`"),
    ]
    assert cluster.spec.owner.user == "alice"


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"phase": "Hibernating", "host": "h"}, ClusterStatus(host="h")),
        pytest.param({"workers": {"next": "x"}, "host": "h"}, ClusterStatus(host="h")),
        pytest.param({"startTime": "soon", "reason": "r"}, ClusterStatus(reason="r")),
        pytest.param("garbage", ClusterStatus()),
        pytest.param(None, ClusterStatus()),
    ],
    ids=["unknown phase", "set", "time", "text", "none"],
)
def test_what_cannot_be_read_of_a_status_is_as_if_it_were_lost(status, want) -> None:
    """W17: an unknown phase is found anew from what is there."""
    cluster = parse_dask_cluster(a_raw(status=status))

    assert cluster.status == want
    assert cluster.problems == ()


def a_cluster(workers, target=None, cap=None):
    limits = {} if cap is None else {"maxWorkers": cap}
    status = {} if target is None else {"adaptiveTarget": target}
    return parse_dask_cluster(
        a_raw({**SOUND, "workers": workers, "limits": limits}, status)
    )


BOUNDS = {"id": "i2", "minimum": 2, "maximum": 6}


@pytest.mark.parametrize(
    ("workers", "target", "cap", "want"),
    [
        pytest.param({"replicas": 3}, None, None, 3, id="people's number"),
        pytest.param({"replicas": 3}, None, 2, 2, id="capped"),
        pytest.param(
            {"replicas": 3}, {"id": "i2", "target": 5}, None, 3, id="not adaptive"
        ),
        pytest.param({"replicas": 9, "adaptive": BOUNDS}, None, None, 6, id="until"),
        pytest.param(
            {"replicas": 9, "adaptive": BOUNDS},
            {"id": "i2", "target": 5},
            None,
            5,
            id="target",
        ),
        pytest.param(
            {"replicas": 3, "adaptive": BOUNDS},
            {"id": "i1", "target": 5},
            None,
            3,
            id="target of older bounds",
        ),
        pytest.param(
            {"adaptive": BOUNDS}, {"id": "i2", "target": 0}, None, 2, id="floor"
        ),
        pytest.param(
            {"adaptive": BOUNDS}, {"id": "i2", "target": 6}, 4, 4, id="cap over it"
        ),
    ],
)
def test_wanted_workers(workers, target, cap, want) -> None:
    assert a_cluster(workers, target, cap).wanted_workers == want


def test_adaptive_bounds_by_hand_need_no_id() -> None:
    cluster = a_cluster({"adaptive": {"minimum": 1, "maximum": 4}})

    assert cluster.spec.workers.adaptive == AdaptiveSpec(minimum=1, maximum=4)
    assert cluster.wanted_workers == 1
    assert cluster.status.adaptive_target is None
    assert AdaptiveTarget(id="", target=3).id == cluster.spec.workers.adaptive.id


def test_the_worker_set_is_kept_as_it_stands() -> None:
    cluster = parse_dask_cluster(a_raw(status={"workers": {"next": 3, "members": ""}}))

    assert cluster.status.workers == WorkersStatus(next=3, members="")


@pytest.mark.parametrize(
    ("stamp", "told", "want"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z", 678_000),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:09:05.678Z", 0),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678", 0),
        ("2026-01-02T03:04:05Z", "yesterday", 0),
        (None, "2026-01-02T03:04:05.678Z", None),
    ],
)
def test_the_fraction_of_a_creation_counts_where_it_fits(stamp, told, want) -> None:
    annotations = {"daskfleet.io/created": told}
    metadata = {"name": "c1", "creationTimestamp": stamp, "annotations": annotations}

    created = parse_dask_cluster({"metadata": metadata}).created

    assert (None if created is None else created.microsecond) == want
