"""The node of the harness is a real one: what pods do on it."""

from typing import Any

import pytest

from tests.harness.accounts import create_namespace
from tests.harness.api import KubeApi
from tests.harness.control_plane import FILES
from tests.harness.images import Image
from tests.harness.kubectl import Kubectl
from tests.harness.node import NAME, Node
from tests.support.eventually import eventually

# Three minutes: the box may be loaded, and only a failure waits as long.
PATIENCE_S = 180
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def battery(node: Node) -> "Battery":
    """All pods of the battery, made at once in a namespace of their own."""
    made = Battery(node)
    made.api.apply(FILES / "battery.yaml", namespace=made.namespace)
    return made


class Battery:
    """Pods of the battery and what became of them."""

    def __init__(self, node: Node) -> None:
        self.api = node.control_plane.client()
        self.namespace = create_namespace(self.api, "battery")
        self.kubectl = Kubectl.of_admin(node.control_plane, self.namespace)

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any]
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return found

    def container(self, name: str) -> dict[str, Any]:
        statuses = self.pod(name)["status"].get("containerStatuses")
        assert statuses, f"{name} has no container yet"
        first: dict[str, Any] = statuses[0]
        return first

    async def ended(self, name: str) -> dict[str, Any]:
        """Return how a container ended, once it has."""
        return await eventually(
            lambda: self.container(name)["state"].get("terminated"), within=PATIENCE_S
        )

    async def waiting(self, name: str, *reasons: str) -> dict[str, Any]:
        """Return why a container waits, once it is for one of ``reasons``."""

        def why() -> dict[str, Any] | None:
            waiting = self.container(name)["state"].get("waiting", {})
            return waiting if waiting.get("reason") in reasons else None

        return await eventually(why, within=PATIENCE_S)

    async def ready(self, name: str) -> None:
        await eventually(lambda: self.container(name)["ready"], within=PATIENCE_S)


async def test_a_scheduler_becomes_ready_by_its_probe_under_a_read_only_root(
    battery: Battery,
) -> None:
    await battery.ready("scheduler")

    status = battery.pod("scheduler")["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("10.88.")
    assert "Scheduler at:" in battery.kubectl("logs", "scheduler")


async def test_exec_shows_mounted_credentials_with_their_mode_and_group(
    battery: Battery,
) -> None:
    await battery.ready("scheduler")

    script = "cat /etc/dask-credentials/api-token /files/a.txt; id -u; id -G"
    seen = battery.kubectl("exec", "scheduler", "--", "sh", "-c", script)
    mode = battery.kubectl(
        *("exec", "scheduler", "--", "stat", "-L", "-c", "%a %g"),
        "/etc/dask-credentials/dask.pem",
    )

    assert seen == "TOKhello1000\n1000 2000"
    assert mode == "440 2000"


async def test_a_worker_finds_the_scheduler_by_name_and_computes(
    battery: Battery,
) -> None:
    await battery.ready("scheduler")
    program = (
        "from distributed import Client; c = Client('tcp://localhost:8786');"
        " c.wait_for_workers(1, timeout=150);"
        " print(list(c.scheduler_info()['workers'].values())[0]['name'],"
        " c.submit(sum, [40, 2]).result())"
    )

    said = battery.kubectl("exec", "scheduler", "--", "python", "-c", program)

    assert said.splitlines()[-1] == "worker 42"


async def test_services_are_reached_by_virtual_address_and_by_name(
    battery: Battery,
) -> None:
    await battery.ready("scheduler")
    fetch = "import urllib.request as u; print(u.urlopen('http://{}').status)"
    names = ("virtual/health", f"virtual.{battery.namespace}.svc.cluster.local/health")

    def all_answer() -> bool:
        for name in names:
            code = fetch.format(name)
            words = ("exec", "worker", "--", "python", "-c", code)
            done = battery.kubectl.call(*words)
            assert done.stdout.strip() == "200", done.stderr
        return True

    assert await eventually(all_answer, within=PATIENCE_S)


async def test_an_exit_code_and_the_last_words_are_kept(battery: Battery) -> None:
    ended = await battery.ended("exits")

    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    # The kubelet tells of the container first and of the pod a moment later.
    assert await eventually(
        lambda: battery.pod("exits")["status"]["phase"] == "Failed", within=PATIENCE_S
    )
    assert battery.kubectl("logs", "exits") == "bye"


async def test_a_container_over_its_memory_is_killed_for_that(
    battery: Battery,
) -> None:
    ended = await battery.ended("oom")

    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def test_a_container_that_may_restart_does(battery: Battery) -> None:
    await eventually(
        lambda: battery.container("restarts")["restartCount"] >= 2, within=PATIENCE_S
    )

    assert battery.container("restarts")["lastState"]["terminated"]["exitCode"] == 1


async def test_a_missing_image_is_told(battery: Battery) -> None:
    waiting = await battery.waiting("imageless", "ErrImagePull", "ImagePullBackOff")

    assert "test.local/nope:1" in waiting["message"]


async def test_a_missing_command_is_told(battery: Battery) -> None:
    ended = await battery.ended("commandless")

    assert ended["reason"] == "StartError"
    assert "no-such-command" in ended["message"]


async def test_a_missing_secret_is_told(battery: Battery) -> None:
    waiting = await battery.waiting("keyless", "CreateContainerConfigError")

    assert waiting["message"] == 'secret "not-there" not found'


async def test_a_pod_that_fits_nowhere_says_why(battery: Battery) -> None:
    def unschedulable() -> str:
        for condition in battery.pod("huge")["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""

    assert "Insufficient cpu" in await eventually(unschedulable, within=PATIENCE_S)


async def test_a_deleted_pod_is_gone_with_its_containers(
    node: Node, namespace: str
) -> None:
    api = node.control_plane.client()
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.post(path, sleeper("s"))
    await running(api, f"{path}/s")

    api.delete(f"{path}/s", {"gracePeriodSeconds": 1})

    assert await eventually(lambda: api.find(f"{path}/s") is None, within=PATIENCE_S)


async def test_pods_run_on_while_the_kubelet_is_killed_and_comes_back(
    node: Node, namespace: str
) -> None:
    api = node.control_plane.client()
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.post(path, sleeper("kept"))
    before = await running(api, f"{path}/kept")

    node.kubelet.restart()
    api.post(path, sleeper("later"))
    await running(api, f"{path}/later")

    after = await running(api, f"{path}/kept")
    assert after["containerStatuses"][0]["restartCount"] == 0
    assert (
        after["containerStatuses"][0]["containerID"]
        == before["containerStatuses"][0]["containerID"]
    )


async def test_the_node_survives_a_killed_api_server_and_etcd(
    node: Node, namespace: str
) -> None:
    plane = node.control_plane
    api = plane.client()
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.post(path, sleeper("kept"))
    await running(api, f"{path}/kept")

    plane.apiserver.kill()
    plane.etcd.restart()
    plane.apiserver.start()
    api.post(path, sleeper("later"))

    await running(api, f"{path}/later")
    await running(api, f"{path}/kept")
    assert all(service.is_running for service in node.services.values())
    assert node.is_ready, NAME


async def test_a_pod_waits_while_the_scheduler_is_frozen(
    node: Node, namespace: str
) -> None:
    api = node.control_plane.client()
    path = f"/api/v1/namespaces/{namespace}/pods"

    node.scheduler.pause()
    try:
        api.post(path, sleeper("s"))
        api.post(path, sleeper("placed") | {"spec": placed_spec()})
        await running(api, f"{path}/placed")
        waiting = api.get(f"{path}/s")
    finally:
        node.scheduler.resume()

    assert "nodeName" not in waiting["spec"]
    await running(api, f"{path}/s")


async def test_a_pod_runs_once_its_image_is_there(node: Node, namespace: str) -> None:
    api = node.control_plane.client()
    path = f"/api/v1/namespaces/{namespace}/pods"
    late = Image("test.local/late:1")
    pod = sleeper("s")
    pod["spec"]["containers"][0] |= {"image": late.reference}
    api.post(path, pod)

    def cannot_pull() -> bool:
        (status,) = api.get(f"{path}/s")["status"]["containerStatuses"]
        return "ImagePull" in status["state"]["waiting"]["reason"]

    def has_status() -> bool:
        return bool(api.get(f"{path}/s")["status"].get("containerStatuses"))

    await eventually(has_status, within=PATIENCE_S)
    await eventually(cannot_pull, within=PATIENCE_S)
    node.containers.add_image(late)

    await running(api, f"{path}/s")
    node.containers.remove_image(late.reference)


async def test_a_namespace_ends_with_all_that_is_in_it(
    node: Node, make_namespace
) -> None:
    api, name = node.control_plane.client(), make_namespace("short")
    api.post(f"/api/v1/namespaces/{name}/pods", sleeper("s"))

    api.delete(f"/api/v1/namespaces/{name}")

    found = f"/api/v1/namespaces/{name}"
    assert await eventually(lambda: api.find(found) is None, within=PATIENCE_S)


def sleeper(name: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "test.local/dask:1",
        "command": ["sleep", "10000"],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": spec}


def placed_spec() -> dict[str, Any]:
    spec: dict[str, Any] = sleeper("")["spec"]
    return spec | {"nodeName": NAME}


async def running(api: KubeApi, path: str) -> dict[str, Any]:
    """Return the status of a pod, once it runs."""

    def status() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(path)["status"]
        assert found["phase"] in {"Pending", "Running"}
        return found if found["phase"] == "Running" else None

    return await eventually(status, within=PATIENCE_S)
