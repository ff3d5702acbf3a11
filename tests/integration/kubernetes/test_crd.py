"""The DaskCluster resource on a real API server: what it accepts and what not."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from backends.kubernetes.crd.formatting import (
    format_adapt_patch,
    format_first_sync_patch,
    format_first_worker_patch,
    format_new_cluster,
    format_scale_patch,
    format_status_patch,
    format_stop_patch,
    format_target_patch,
)
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    ClusterSpec,
    ClusterStatus,
    Condition,
    DaskCluster,
    LifetimesSpec,
    LimitsSpec,
    Owner,
    RoleSpec,
    WorkerSpec,
    WorkersSpec,
    WorkersStatus,
)
from backends.kubernetes.desired.labels import build_worker_selector
from gateway.domain.cluster import ClusterPhase
from tests.harness.api import Answer, KubeApi
from tests.harness.control_plane import ControlPlane
from tests.harness.kubectl import Kubectl
from tests.support.eventually import eventually
from tests.support.sources import ROOT

pytestmark = pytest.mark.integration

CRD = ROOT / "chart/crds/daskclusters.json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="session")
def openapi(apiserver: ControlPlane) -> dict[str, Any]:
    return dict(apiserver.client().get("/openapi/v3/api/v1"))


@pytest.fixture(scope="session")
def make_crd() -> Iterator[Any]:
    # A script, not a package: imported as when it is run.
    sys.path.insert(0, str(ROOT / "tools"))
    import make_crd as module

    yield module
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="session")
def crd(apiserver: ControlPlane) -> str:
    """Apply the CRD as a person would, and return the path of its resource."""
    Kubectl.of_admin(apiserver)("apply", "-f", str(CRD))
    return wait_until_served(apiserver, json.loads(CRD.read_text()))


class Clusters:
    """DaskClusters in a namespace of the test's own."""

    def __init__(self, api: KubeApi, resource: str, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"{resource}/namespaces/{namespace}/daskclusters"

    def create(self, spec: ClusterSpec, name: str = "c1") -> DaskCluster:
        new = format_new_cluster(name, self.namespace, spec, labels={"a": "b"})
        return parse_dask_cluster(
            self.api.post(self.path, new, fieldValidation="Strict")
        )

    def try_patch(self, patch: object, name: str = "c1", part: str = "") -> Answer:
        return self.api.call(
            "PATCH",
            f"{self.path}/{name}{part}",
            patch,
            content="application/merge-patch+json",
            fieldValidation="Strict",
        )

    def patch(self, patch: object, name: str = "c1", part: str = "") -> DaskCluster:
        answer = self.try_patch(patch, name, part)
        assert answer.is_ok, answer.body
        return parse_dask_cluster(answer.body)

    def get(self, name: str = "c1") -> DaskCluster:
        return parse_dask_cluster(self.api.get(f"{self.path}/{name}"))


@pytest.fixture
def clusters(apiserver: ControlPlane, crd: str, namespace: str) -> Clusters:
    return Clusters(apiserver.client(), crd, namespace)


@pytest.fixture
def kubectl(
    apiserver: ControlPlane,
    crd: str,  # noqa: ARG001 - has to be there before
    namespace: str,
) -> Kubectl:
    return Kubectl.of_admin(apiserver, namespace)


def wait_until_served(plane: ControlPlane, document: dict[str, Any]) -> str:
    """Return the resource's path once the API server serves it."""
    name, spec = document["metadata"]["name"], document["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
    api = plane.client()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = api.get(f"{CRDS}/{name}").get("status", {}).get("conditions") or ()
        held = {c["type"]: c["status"] for c in found}
        assert held.get("NonStructuralSchema") != "True"
        if held.get("Established") == "True" and api.find(path):
            return path
    raise AssertionError(f"{name} is not served: {found}")


def a_spec(**changes: Any) -> ClusterSpec:
    spec = ClusterSpec(owner=Owner(user="alice"), target_namespace="team-a")
    return msgspec.structs.replace(spec, **changes)


def test_the_file_is_what_the_tool_makes_of_this_servers_schemas(
    openapi, make_crd
) -> None:
    assert CRD.read_text() == make_crd.format_crd(openapi)


def test_the_file_is_small_enough_for_kubectl_apply(make_crd) -> None:
    assert CRD.stat().st_size < make_crd.MOST_BYTES == 120 * 1024


def test_a_crd_that_has_grown_too_large_is_not_written(
    openapi, make_crd, monkeypatch
) -> None:
    monkeypatch.setattr(make_crd, "MOST_BYTES", 1000)

    with pytest.raises(ValueError, match=r"has \d+ bytes, may have 1000"):
        make_crd.format_crd(openapi)


def test_what_is_written_is_read_back(clusters: Clusters) -> None:
    spec = ClusterSpec(
        owner=Owner(user="a@b.co", groups=("lab", "gpu")),
        options={"image": "x", "nested": {"n": [1, None]}},
        target_namespace="team-a",
        workers=WorkersSpec(
            replicas=3, adaptive=AdaptiveSpec(id="i1", minimum=1, maximum=9)
        ),
        scheduler=RoleSpec(command=("dask", "scheduler")),
        worker=WorkerSpec(threads=2, template={"metadata": {"labels": {"x": "y"}}}),
        limits=LimitsSpec(max_workers=9, worker_cores=0.5, worker_memory_bytes=2**40),
        lifetimes=LifetimesSpec(idle_timeout_seconds=0.5, worker_start_failure_limit=1),
        retention_seconds=60,
    )

    created = clusters.create(spec)

    assert created.spec == spec
    assert created.problems == ()
    assert (created.name, created.namespace) == ("c1", clusters.namespace)
    assert (created.generation, created.labels) == (1, {"a": "b"})
    assert created.created is not None


def test_a_whole_status_is_read_back_and_the_spec_is_left_alone(
    clusters: Clusters,
) -> None:
    before = clusters.create(a_spec())
    status = ClusterStatus(
        phase=ClusterPhase.RUNNING,
        reason="Starting",
        message="m",
        workers=WorkersStatus(
            next=3,
            members="0-2",
            epoch=7,
            wanted=3,
            ready=1,
            starting=2,
            failures=1,
            last_failure_time=NOW,
        ),
        conditions=(
            Condition(
                type="SpecValid",
                status="True",
                reason="Accepted",
                last_transition_time=NOW,
                observed_generation=1,
            ),
        ),
        scheduler_pod="dask-scheduler-c1",
        host="dask-c1.team-a.svc",
        start_time=NOW,
        completion_time=NOW,
        stop_reason="StoppedByUser",
        stop_message="bye",
        log_tail=("one", "two"),
        selector=build_worker_selector("i", "c1"),
        observed_generation=1,
    )

    clusters.patch(set_status(before, status), part="/status")
    clusters.patch(format_first_sync_patch(NOW), part="/status")
    clusters.patch(format_first_worker_patch(NOW), part="/status")
    target = AdaptiveTarget(id="i1", target=4)
    after = clusters.patch(format_target_patch(target), part="/status")

    assert after.status == msgspec.structs.replace(
        status, adaptive_target=target, first_sync_time=NOW, first_worker_time=NOW
    )
    assert (after.spec, after.generation) == (before.spec, 1)


def set_status(before: DaskCluster, status: ClusterStatus) -> object:
    return format_status_patch(
        before.status,
        status,
        resource_version=before.resource_version,
    )


def test_a_status_made_from_an_old_view_is_refused(clusters: Clusters) -> None:
    old = clusters.create(a_spec())
    clusters.patch(format_scale_patch(1))

    late = set_status(old, ClusterStatus(reason="Late", start_time=NOW))
    answer = clusters.try_patch(late, part="/status")

    assert answer.status == 409
    assert clusters.get().status.reason == ""


def test_a_compare_that_changes_nothing_writes_nothing_and_still_compares(
    clusters: Clusters,
) -> None:
    old = clusters.create(a_spec())
    compare = set_status(old, old.status)

    assert clusters.patch(compare, part="/status").resource_version == (
        old.resource_version
    )
    clusters.patch(format_scale_patch(1))
    assert clusters.try_patch(compare, part="/status").status == 409


def test_a_status_for_a_former_cluster_of_the_name_is_refused(
    clusters: Clusters,
) -> None:
    former = clusters.create(a_spec())
    clusters.api.delete(f"{clusters.path}/c1")
    clusters.create(a_spec())

    late = set_status(former, ClusterStatus(reason="Late", start_time=NOW))
    answer = clusters.try_patch(late, part="/status")

    assert answer.status == 409


def test_stop_patch_carries_who_and_why(clusters: Clusters) -> None:
    clusters.create(a_spec())

    stopped = clusters.patch(format_stop_patch("IdleTimeout", "idle for 60 s"))

    assert not stopped.spec.active
    assert (stopped.stop_reason, stopped.stop_message) == (
        "IdleTimeout",
        "idle for 60 s",
    )


ADAPTIVE = WorkersSpec(replicas=2, adaptive=AdaptiveSpec(id="i1", minimum=0, maximum=9))
REFUSED = [
    pytest.param(
        {"spec": {"owner": {"user": "bob"}}},
        "the owner cannot change",
        id="another owner",
    ),
    pytest.param(
        {"spec": {"owner": {"groups": ["lab"]}}},
        "the owner cannot change",
        id="another group",
    ),
    pytest.param(
        {"spec": {"owner": None}}, "spec.owner: Required value", id="no owner"
    ),
    pytest.param(
        {"spec": {"targetNamespace": "b"}},
        "cannot move to another namespace",
        id="another namespace",
    ),
    pytest.param(
        {"spec": {"workers": {"replicas": 3}}},
        "replicas has no effect while adaptive is set",
        id="replicas while adaptive",
    ),
    pytest.param(
        {"spec": {"workers": {"adaptive": {"minimum": 10}}}},
        "minimum must be <= maximum",
        id="bounds crossed",
    ),
    pytest.param(
        {"spec": {"workers": {"adaptive": {"maximum": 100001}}}},
        "should be less than or equal to 100000",
        id="too many",
    ),
    pytest.param(
        {"spec": {"lifetimes": {"idleTimeoutSeconds": -1}}},
        "should be greater than or equal to 0",
        id="negative seconds",
    ),
    pytest.param(
        {"spec": {"worker": {"template": {"spec": {"hostNetwork": "yes"}}}}},
        "must be of type boolean",
        id="wrong type in a template",
    ),
]


@pytest.mark.parametrize(("patch", "want"), REFUSED)
def test_what_may_not_be_is_refused(clusters: Clusters, patch, want) -> None:
    clusters.create(a_spec(workers=ADAPTIVE))

    answer = clusters.try_patch(patch)

    assert answer.status == 422, answer.body
    assert want in answer.body["message"]


def test_a_stopped_cluster_cannot_start_again(clusters: Clusters) -> None:
    clusters.create(a_spec())
    clusters.patch(format_stop_patch("StoppedByUser", ""))

    for patch in ({"spec": {"active": True}}, {"spec": {"active": None}}):
        answer = clusters.try_patch(patch)
        assert answer.status == 422
        assert "stopped cannot start again" in answer.body["message"]


@pytest.mark.parametrize("name", ["0c", "c-", "a" * 47])
def test_a_name_that_no_service_can_have_is_refused(clusters: Clusters, name) -> None:
    new = format_new_cluster(name, clusters.namespace, a_spec(), labels={})

    assert clusters.api.call("POST", clusters.path, new).status == 422


def test_scale_and_adapt_of_the_api_pass_in_each_state(clusters: Clusters) -> None:
    clusters.create(a_spec(workers=ADAPTIVE))

    scaled = clusters.patch(format_scale_patch(5))
    assert scaled.spec.workers == WorkersSpec(replicas=5)

    bounds = AdaptiveSpec(id="i2", minimum=0, maximum=0)
    adapted = clusters.patch(format_adapt_patch(bounds))
    assert adapted.spec.workers == WorkersSpec(replicas=5, adaptive=bounds)

    wider = AdaptiveSpec(id="i3", minimum=2, maximum=4)
    assert clusters.patch(format_adapt_patch(wider)).spec.workers.adaptive == wider


def test_kubectl_scales_a_cluster_and_is_told_why_it_cannot_an_adaptive_one(
    clusters: Clusters, kubectl: Kubectl
) -> None:
    clusters.create(a_spec())
    clusters.create(a_spec(workers=ADAPTIVE), name="c2")

    kubectl("scale", "daskcluster/c1", "--replicas=4")
    refused = kubectl.call("scale", "dkc/c2", "--replicas=4")

    assert clusters.get().spec.workers.replicas == 4
    assert "remove adaptive with it" in refused.stderr


def test_the_scale_subresource_shows_what_is_ready_and_how_to_select_it(
    clusters: Clusters,
) -> None:
    created = clusters.create(a_spec(workers=WorkersSpec(replicas=3)))
    status = ClusterStatus(
        workers=WorkersStatus(ready=2), selector="a=b", start_time=NOW
    )
    clusters.patch(set_status(created, status), part="/status")

    scale = clusters.api.get(f"{clusters.path}/c1/scale")

    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "a=b"}


def test_kubectl_prints_what_an_operator_asks_for(
    clusters: Clusters, kubectl: Kubectl
) -> None:
    created = clusters.create(a_spec())
    status = ClusterStatus(
        reason="Unschedulable", workers=WorkersStatus(wanted=3), start_time=NOW
    )
    clusters.patch(set_status(created, status), part="/status")

    head, row = kubectl("get", "dkc").splitlines()

    assert head.split() == [
        "NAME",
        "PHASE",
        "READY",
        "WANTED",
        "OWNER",
        "TARGET",
        "REASON",
        "AGE",
    ]
    assert row.split()[:-1] == [
        "c1",
        "Pending",
        "0",
        "3",
        "alice",
        "team-a",
        "Unschedulable",
    ]


APPLIED = """
apiVersion: daskfleet.io/v1alpha1
kind: DaskCluster
metadata: {name: by-hand}
spec:
  owner: {user: alice}
  targetNamespace: team-a
  worker:
    template:
      spec:
        priorityClassName: low
        tolerations: [{key: spot, operator: Exists}]
        containers:
        - name: dask-worker
          image: x
          env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
          resources: {limits: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}}
          volumeMounts: [{name: data, mountPath: /data}]
        volumes: [{name: data, persistentVolumeClaim: {claimName: d}}]
"""


def test_a_cluster_applied_by_hand_has_all_that_it_needs(
    clusters: Clusters, kubectl: Kubectl
) -> None:
    kubectl("apply", "--validate=strict", "-f", "-", stdin=APPLIED)

    cluster = clusters.get("by-hand")

    assert cluster.problems == ()
    assert cluster.spec.active
    assert cluster.spec.workers == WorkersSpec()
    template = cluster.spec.worker.template["spec"]
    assert template["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1


@pytest.mark.parametrize(
    "line",
    [
        "spec: {activ: false}",
        "spec: {scheduler: {template: {spec: {hostNetwrok: true}}}}",
        "spec: {lifetimes: {idleTimeout: 3}}",
    ],
)
def test_an_unknown_field_is_refused_by_strict_validation(
    kubectl: Kubectl, line: str
) -> None:
    document = msgspec.yaml.decode(APPLIED) | {}
    document["spec"] |= msgspec.yaml.decode(line)["spec"]

    refused = kubectl.call(
        "apply", "--validate=strict", "-f", "-", stdin=json.dumps(document)
    )

    assert refused.returncode != 0
    assert "unknown field" in refused.stderr


def test_kubectl_explains_a_field_of_a_pod_template(kubectl: Kubectl) -> None:
    field = "daskcluster.spec.worker.template.spec.containers.resources.limits"

    assert "limits" in kubectl("explain", field)


@pytest.fixture
def older(apiserver: ControlPlane) -> Iterator[Callable[[str], Any]]:
    """Serve the CRD under another group, as lax as no schema of ours ever was."""
    api = apiserver.client()
    text = CRD.read_text().replace("daskfleet.io", "older.daskfleet.io")
    today = json.loads(text)
    lax = json.loads(text)
    schema = lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        schema["properties"][part] = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
    name = today["metadata"]["name"]
    api.post(CRDS, lax)
    wait_until_served(apiserver, lax)

    def upgrade() -> None:
        api.apply(today)

    yield upgrade
    api.delete(f"{CRDS}/{name}")


BROKEN = {
    "owner": {"user": "x" * 300, "groups": ["lab", "lab"]},
    "options": {"any": "thing"},
    "targetNamespace": "Not_A_Namespace",
    "workers": {
        "replicas": 500000,
        "adaptive": {"id": "x" * 99, "minimum": 9, "maximum": 1},
    },
    "scheduler": {"command": "not a list", "template": {"spec": {"containers": 3}}},
    "worker": {"threads": -1, "template": {"spec": {"volumes": "no"}}},
    "limits": {"maxWorkers": -1},
    "lifetimes": {"idleTimeoutSeconds": "soon"},
    "retentionSeconds": -1,
}


async def test_stop_passes_for_an_object_that_breaks_every_rule_of_today(
    apiserver: ControlPlane, namespace: str, older: Callable[[], None]
) -> None:
    api = apiserver.client()
    path = f"/apis/older.daskfleet.io/v1alpha1/namespaces/{namespace}/daskclusters"
    body = {
        "apiVersion": "older.daskfleet.io/v1alpha1",
        "kind": "DaskCluster",
        "metadata": {"name": "c1"},
        "spec": BROKEN,
    }
    api.post(path, body)
    older()
    await eventually(
        lambda: not api.call("POST", path, {**body, "metadata": {"name": "c2"}}).is_ok,
        within=60,
    )

    stopped = api.patch(f"{path}/c1", format_stop_patch("StoppedByUser", ""))
    status = ClusterStatus(phase=ClusterPhase.STOPPED, start_time=NOW)
    ended = api.patch(
        f"{path}/c1/status", set_status(parse_dask_cluster(stopped), status)
    )

    assert stopped["spec"]["active"] is False
    assert parse_dask_cluster(ended).status.phase is ClusterPhase.STOPPED
    assert len(parse_dask_cluster(ended).problems) > 5
