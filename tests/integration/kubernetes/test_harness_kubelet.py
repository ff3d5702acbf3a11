"""The stand-in kubelet, by itself and against a real one."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest

from tests.harness.accounts import create_namespace
from tests.harness.api import KubeApi
from tests.harness.control_plane import ControlPlane
from tests.harness.node import Node
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import IMAGE_MISSING, SECRET_MISSING, UNSCHEDULABLE, Fate

PATIENCE_S = 120
pytestmark = pytest.mark.timeout(400)

RUNS = {"command": ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]}


@pytest.fixture
def kubelet(apiserver: ControlPlane) -> Iterator[StandInKubelet]:
    with StandInKubelet(apiserver, decide=fate_by_label) as started:
        yield started


@pytest.fixture
def pods(apiserver: ControlPlane, namespace: str) -> "Pods":
    return Pods(apiserver.client(), namespace)


class Pods:
    """Pods of one namespace."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def make(self, name: str, fate: str = "", **changes: Any) -> None:
        container = {"name": "c", "image": "test.local/dask:1", **RUNS}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            **changes,
        }
        metadata = {"name": name, "labels": {"fate": fate}}
        self.api.post(self.path, {"metadata": metadata, "spec": spec})

    def find(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.api.find(f"{self.path}/{name}")
        return found

    async def status(self, name: str, phase: str) -> dict[str, Any]:
        """Return a pod's status, once it is in ``phase``."""

        def status() -> dict[str, Any] | None:
            found = self.find(name)
            assert found is not None, f"no pod {name}"
            assert found["status"]["phase"] == phase, found["status"]
            seen: dict[str, Any] = found["status"]
            return seen

        return await eventually(status, within=PATIENCE_S)

    async def reason(self, name: str, want: str) -> dict[str, Any]:
        """Return a pod's status, once a container or condition has a reason."""

        def status() -> dict[str, Any] | None:
            found = self.find(name)
            assert found is not None, f"no pod {name}"
            assert want in reasons(found["status"]), found["status"]
            seen: dict[str, Any] = found["status"]
            return seen

        return await eventually(status, within=PATIENCE_S)

    async def gone(self, name: str) -> None:
        await eventually(lambda: self.find(name) is None, within=PATIENCE_S)


FATES = {
    "unschedulable": Fate(hold=UNSCHEDULABLE),
    "imageless": Fate(hold=IMAGE_MISSING),
    "exits": Fate(exit_code=3),
    "slow": Fate(start_s=1, stop_s=1),
}


def fate_by_label(pod: Mapping[str, Any]) -> Fate:
    return FATES.get(pod["metadata"].get("labels", {}).get("fate"), Fate())


def reasons(status: Mapping[str, Any]) -> set[str]:
    found = {one.get("reason", "") for one in status.get("conditions", ())}
    for container in status.get("containerStatuses", ()):
        found |= {state.get("reason", "") for state in container["state"].values()}
    return found | {status.get("reason", ""), status["phase"]}


async def test_a_pod_is_bound_runs_and_goes_when_it_is_deleted(
    kubelet: StandInKubelet, pods: Pods
) -> None:
    pods.make("p")

    status = await pods.status("p", "Running")
    found = pods.find("p")
    assert found is not None
    assert found["spec"]["nodeName"] == kubelet.name
    assert status["podIP"].startswith("10.244.")
    assert [one["ready"] for one in status["containerStatuses"]] == [True]

    pods.api.delete(f"{pods.path}/p")
    await pods.gone("p")


async def test_a_held_pod_says_why_until_it_is_let_run(
    kubelet: StandInKubelet, pods: Pods
) -> None:
    for fate in ("unschedulable", "imageless"):
        pods.make(fate, fate)

    placed = await pods.reason("unschedulable", "Unschedulable")
    assert placed["conditions"][0]["message"] == UNSCHEDULABLE.message
    await pods.reason("imageless", "ImagePullBackOff")
    events = pods.api.items(f"/api/v1/namespaces/{pods.namespace}/events")
    assert {event["reason"] for event in events} == {"FailedScheduling", "Failed"}
    for name in ("unschedulable", "imageless"):
        kubelet.run(pods.namespace, name)
        await pods.status(name, "Running")


@pytest.mark.usefixtures("kubelet")
async def test_a_held_pod_is_deleted_like_any_other(pods: Pods) -> None:
    pods.make("p", "imageless")
    await pods.reason("p", "ImagePullBackOff")

    pods.api.delete(f"{pods.path}/p")

    await pods.gone("p")


async def test_one_container_ends_while_its_sidecar_runs_on(
    kubelet: StandInKubelet, pods: Pods
) -> None:
    containers = [{"name": name, "image": "i"} for name in ("dask", "sidecar")]
    pods.make("p", containers=containers)
    await pods.status("p", "Running")

    kubelet.end(pods.namespace, "p", 137, container="dask", reason="OOMKilled")

    status = await pods.reason("p", "OOMKilled")
    assert status["phase"] == "Running"
    dask, sidecar = status["containerStatuses"]
    assert dask["state"]["terminated"]["exitCode"] == 137
    assert sidecar["ready"]
    kubelet.end(pods.namespace, "p", 0)
    failed = await pods.status("p", "Failed")
    assert failed["containerStatuses"][0] == dask


async def test_a_preempted_pod_is_told_from_one_that_was_deleted(
    kubelet: StandInKubelet, pods: Pods
) -> None:
    pods.make("p", "slow")
    await pods.status("p", "Running")

    kubelet.preempt(pods.namespace, "p")

    await pods.reason("p", "PreemptionByScheduler")
    await pods.gone("p")


async def test_pods_of_a_dropped_node_go_and_a_frozen_one_keeps_them(
    kubelet: StandInKubelet, pods: Pods
) -> None:
    for name in ("a", "b"):
        pods.make(name)
        await pods.status(name, "Running")

    kubelet.freeze()
    pods.api.delete(f"{pods.path}/a")
    pods.make("late")
    found = pods.find("a")
    assert found is not None
    assert "deletionTimestamp" in found["metadata"]

    kubelet.drop_node()
    for name in ("a", "b"):
        await pods.gone(name)
    late = pods.find("late")
    assert late is not None
    assert "nodeName" not in late["spec"]


@pytest.mark.usefixtures("kubelet")
async def test_it_goes_on_after_the_api_server_was_killed(
    apiserver: ControlPlane, pods: Pods
) -> None:
    pods.make("before", "slow")

    apiserver.apiserver.restart()
    pods.make("after")

    for name in ("before", "after"):
        await pods.status(name, "Running")


@pytest.mark.usefixtures("kubelet")
async def test_hundreds_of_pods_run_and_end(pods: Pods) -> None:
    names = [f"p-{number}" for number in range(200)]
    for name in names:
        pods.make(name)

    def phases() -> list[str]:
        found = pods.api.items(pods.path)
        return [pod["status"]["phase"] for pod in found]

    await eventually(lambda: phases() == ["Running"] * len(names), within=PATIENCE_S)
    pods.api.delete(pods.path)
    await eventually(lambda: phases() == [], within=PATIENCE_S)


# Lives that both kubelets can give a pod: what each is told, the status that is
# compared, and by what it is known.
LIVES = {
    "runs": ({}, Fate(), "Running"),
    "succeeds": ({"command": ["true"]}, Fate(exit_code=0), "Succeeded"),
    "fails": ({"command": ["sh", "-c", "exit 3"]}, Fate(exit_code=3), "Failed"),
    "lacks-secret": (
        {
            "env": [
                {
                    "name": "K",
                    "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k"}},
                }
            ]
        },
        Fate(hold=SECRET_MISSING),
        "CreateContainerConfigError",
    ),
}


@pytest.mark.parametrize("life", LIVES)
async def test_its_statuses_are_those_of_a_real_kubelet(
    node: Node, apiserver: ControlPlane, life: str
) -> None:
    changes, fate, mark = LIVES[life]
    container = {"name": "c", "image": "test.local/dask:1", **RUNS, **changes}
    first = {"name": "i", "image": "test.local/dask:1", "command": ["true"]}
    spec = {"containers": [container], "initContainers": [first]}

    seen = []
    with StandInKubelet(apiserver, decide=lambda _: fate):
        for plane in (node.control_plane, apiserver):
            api = plane.client()
            pods = Pods(api, create_namespace(api))
            pods.make("p", automountServiceAccountToken=False, **spec)
            seen.append(comparable(await pods.reason("p", mark)))

    real, imitated = seen
    assert imitated == real


async def test_an_evicted_pod_looks_as_if_a_real_kubelet_had_evicted_it(
    node: Node, apiserver: ControlPlane
) -> None:
    fill = "head -c 9M /dev/zero > /v/full; sleep 1000"
    mount = {"name": "v", "mountPath": "/v"}
    container = {"name": "c", "image": "test.local/dask:1", "volumeMounts": [mount]}
    container["command"] = ["sh", "-c", fill]
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}
    spec = {"containers": [container], "volumes": [volume]}

    api = node.control_plane.client()
    pods = Pods(api, create_namespace(api))
    pods.make("p", automountServiceAccountToken=False, **spec)
    real = await pods.reason("p", "Evicted")
    with StandInKubelet(apiserver) as kubelet:
        api = apiserver.client()
        pods = Pods(api, create_namespace(api))
        pods.make("p", automountServiceAccountToken=False, **spec)
        await pods.status("p", "Running")
        kubelet.evict(pods.namespace, "p", real["message"])
        imitated = await pods.reason("p", "Evicted")

    assert comparable(imitated) == comparable(real)


async def test_a_deleted_pod_shows_its_end_as_on_a_real_node(
    node: Node, apiserver: ControlPlane
) -> None:
    ends = []
    with StandInKubelet(apiserver):
        for plane in (node.control_plane, apiserver):
            api = plane.client()
            pods = Pods(api, create_namespace(api))
            pods.make("p", automountServiceAccountToken=False)
            await pods.status("p", "Running")
            with Watch(api, pods.path) as watch:
                api.delete(f"{pods.path}/p")
                ends.append([comparable(status) for status in watch.until_deleted()])

    real, imitated = ends
    assert imitated[-1] == real[-1]
    assert imitated[-1]["phase"] == "Succeeded"


class Watch:
    """Statuses of one pod, as they come."""

    def __init__(self, api: KubeApi, path: str) -> None:
        self._request = urllib.request.Request(
            f"{api.url}{path}?watch=1", headers={"Authorization": f"Bearer {api.token}"}
        )
        self._context = api.context

    def __enter__(self) -> Self:
        self._answer = urllib.request.urlopen(
            self._request, context=self._context, timeout=PATIENCE_S
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._answer.close()

    def until_deleted(self) -> Iterator[dict[str, Any]]:
        for line in self._answer:
            event = json.loads(line)
            yield event["object"]["status"]
            if event["type"] == "DELETED":
                return


# What differs between two pods, and what each kubelet may add or not at a time.
OWN = ("hostIP", "hostIPs", "podIP", "podIPs", "startTime", "resources")
OWN_OF_CONTAINERS = ("volumeMounts", "containerID", "imageID", "resources")
TIMES = {"startedAt", "finishedAt", "containerID"}


def comparable(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status without what two pods cannot have in common."""
    plain = {key: value for key, value in status.items() if key not in OWN}
    plain["given"] = sorted(set(OWN) - {"resources"} & set(status))
    plain["conditions"] = {
        one["type"]: {
            key: value
            for key, value in one.items()
            if not key.endswith("Time") and key != "type"
        }
        for one in status["conditions"]
    }
    for kind in ("containerStatuses", "initContainerStatuses"):
        plain[kind] = [comparable_container(one) for one in status.get(kind, ())]
    return plain


def comparable_container(container: Mapping[str, Any]) -> dict[str, Any]:
    plain = {k: v for k, v in container.items() if k not in OWN_OF_CONTAINERS}
    plain["has_id"] = bool(container.get("containerID")), bool(container["imageID"])
    plain["state"] = {
        kind: {key: value for key, value in state.items() if key not in TIMES}
        for kind, state in container["state"].items()
    }
    return plain
