"""An anchor as a view."""

import json

import pytest

from backends.kubernetes.observed.services import parse_service

RAW = {
    "metadata": {
        "name": "dask-c",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "5",
        "labels": {"daskfleet.io/cluster": "c"},
        "annotations": {"daskfleet.io/cluster-uid": "uc"},
    },
    "spec": {"clusterIP": "None"},
}


@pytest.mark.parametrize("raw", [RAW, json.dumps(RAW).encode()], ids=["map", "bytes"])
def test_an_anchor_says_whose_it_is(raw) -> None:
    anchor = parse_service(raw)

    assert (anchor.cluster, anchor.cluster_uid) == ("c", "uc")
    assert not anchor.is_terminating


def test_a_service_of_someone_else_belongs_to_nobody() -> None:
    service = parse_service({"metadata": {"name": "x", "deletionTimestamp": "now"}})

    assert (service.cluster, service.cluster_uid) == ("", "")
    assert service.is_terminating
