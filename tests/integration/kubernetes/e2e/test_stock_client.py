"""The unmodified client from PyPI, on a real node, through Traefik.

Two API servers and two controllers run throughout, each under its own account.
"""

import os
import time

import pytest
from dask_gateway import Gateway
from dask_gateway.client import ClusterStatus, GatewayClusterError

from tests.integration.kubernetes.e2e.conftest import connect
from tests.support.eventually import eventually
from tests.support.kube_stack import KubeStack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WITHIN = 120.0


async def test_a_life_in_two_namespaces(gateway: Gateway, stack: KubeStack) -> None:
    def numbered(number: int) -> tuple[int, str, float]:
        return number, os.environ["HOSTNAME"], time.time()

    one, other = stack.site.targets
    first = await gateway.new_cluster(mark="first")
    second = await gateway.new_cluster(mark="second", namespace=other)
    await first.scale(2)
    await second.scale(1)

    async with first.get_client(set_as_default=False) as client:
        await client.wait_for_workers(2)
        assert await client.submit(sum, range(100)) == 4950
        assert await client.submit(os.getenv, "MY_MARK") == "first"
        # Who retires takes nothing along: its data moves, and is not made again.
        futures = client.map(numbered, range(40), pure=False)
        before = await client.gather(futures)
        await first.scale(1)
        await eventually(lambda: has_workers(stack, first.name, 1), within=WITHIN)
        assert await client.gather(futures) == before
    async with second.get_client(set_as_default=False) as client:
        assert await client.submit(os.getenv, "MY_MARK") == "second"

    assert len({host for _, host, _ in before}) == 2
    assert pods(stack, first.name, one) == [
        f"dask-scheduler-{first.name}",
        *workers(stack, first.name),
    ]
    assert pods(stack, second.name, other) == [
        f"dask-scheduler-{second.name}",
        f"{second.name}-worker-0",
    ]
    assert pods(stack, first.name, other) == pods(stack, second.name, one) == []

    await first.shutdown()
    await second.shutdown()
    for name, place in ((first.name, one), (second.name, other)):
        await eventually(lambda n=name: status(stack, n) == "STOPPED", within=WITHIN)
        await eventually(lambda n=name, p=place: not left(stack, n, p), within=WITHIN)


async def test_adapt_follows_the_work_and_a_second_client_comes_by_name(
    gateway: Gateway, stack: KubeStack
) -> None:
    def slow(number: int) -> int:
        time.sleep(0.3)
        return number

    async with await gateway.new_cluster(shutdown_on_close=False) as first:
        name = first.name
        await first.adapt(minimum=0, maximum=2)
    async with (
        await gateway.connect(name) as second,
        second.get_client(set_as_default=False) as client,
    ):
        futures = client.map(slow, range(40))
        assert sum(await client.gather(futures)) == sum(range(40))
        del futures
        await eventually(lambda: has_workers(stack, name, 0), within=WITHIN)
    assert (await gateway.get_cluster(name)).status is ClusterStatus.RUNNING

    await eventually(lambda: log_of(stack, name, "scheduler"), within=WITHIN)
    assert "distributed.scheduler" in log_of(stack, name, "scheduler")
    reasons = [event["reason"] for event in events_of(stack, name)]
    assert {"Pending", "Running"} <= set(reasons)
    # The kubelet's words of the pods are among them.
    assert "Scheduled" in reasons


async def test_a_cluster_deleted_by_kubectl_is_gone_with_all_it_had(
    gateway: Gateway, stack: KubeStack
) -> None:
    cluster = await gateway.new_cluster(shutdown_on_close=False)
    await cluster.scale(1)
    await eventually(lambda: has_workers(stack, cluster.name, 1), within=WITHIN)

    stack.api.delete(stack.site.path(cluster.name))

    await eventually(lambda: status(stack, cluster.name) == "", within=WITHIN)
    place = stack.site.targets[0]
    await eventually(lambda: not left(stack, cluster.name, place), within=WITHIN)
    assert stack.api.find(stack.site.path(cluster.name)) is None
    await cluster.close()


async def test_a_stopped_cluster_is_kept_for_a_while_and_then_expires(
    gateway: Gateway, stack: KubeStack
) -> None:
    name = await gateway.submit()
    await gateway.stop_cluster(name)
    await eventually(lambda: status(stack, name) == "STOPPED", within=WITHIN)

    assert [r.name for r in await gateway.list_clusters(status="stopped")][-1] == name
    stack.api.patch(stack.site.path(name), {"spec": {"retentionSeconds": 1}})

    await eventually(lambda: status(stack, name) == "", within=WITHIN)


async def test_a_cluster_made_by_kubectl_alone_is_its_owners(
    gateway: Gateway, stack: KubeStack
) -> None:
    stack.site.make_cluster("by-hand", replicas=1)

    async with (
        await gateway.connect("by-hand") as cluster,
        cluster.get_client(set_as_default=False) as client,
    ):
        assert await client.submit(pow, 6, 2) == 36
    async with connect(stack, "mallory") as other:
        with pytest.raises(ValueError, match="not found"):
            await other.get_cluster("by-hand")
    await gateway.stop_cluster("by-hand")


@pytest.mark.parametrize(
    ("flavour", "want"),
    [
        pytest.param(
            "exits", ["exit status 3", "MARKER-7351", "log lines say why"], id="exit 3"
        ),
        pytest.param(
            "imageless",
            ["cannot pull its image", "test.local/nope:1", "check the image's name"],
            id="image",
        ),
    ],
)
async def test_a_failed_start_says_why_in_the_clients_exception(
    gateway: Gateway, flavour: str, want: list[str]
) -> None:
    with pytest.raises(GatewayClusterError) as failed:
        await gateway.new_cluster(flavour=flavour)

    text = str(failed.value)
    assert [word for word in want if word not in text] == [], text


async def test_a_namespace_that_is_not_allowed_is_refused_with_the_reason(
    gateway: Gateway,
) -> None:
    with pytest.raises(ValueError, match="may not go to 'kube-system'"):
        await gateway.submit(namespace="kube-system")


def status(stack: KubeStack, name: str) -> str:
    """Return the public status; "" for a cluster that nobody knows."""
    found = stack.find(f"/api/v1/clusters/{name}")
    return str(found["status"]) if found else ""


def has_workers(stack: KubeStack, name: str, number: int) -> bool:
    found = stack.get(f"/api/v1/clusters/{name}/workers")["workers"]
    running = [w["name"] for w in found if w["status"] == "Running"]
    assert len(running) == number, found
    assert len(workers(stack, name)) == number
    return True


def workers(stack: KubeStack, name: str) -> list[str]:
    return [
        pod
        for place in stack.site.targets
        for pod in pods(stack, name, place)
        if "-worker-" in pod
    ]


def pods(stack: KubeStack, name: str, place: str) -> list[str]:
    found = stack.site.pods(name, place)
    names = [pod["metadata"]["name"] for pod in found]
    return sorted(names, key=lambda pod: ("-worker-" in pod, pod))


def left(stack: KubeStack, name: str, place: str) -> list[str]:
    """Return what there is of a cluster in its target namespace."""
    labels = f"daskfleet.io/cluster={name}"
    return [
        f"{kind}/{item['metadata']['name']}"
        for kind in ("pods", "services", "secrets")
        for item in stack.api.items(
            f"/api/v1/namespaces/{place}/{kind}", labelSelector=labels
        )
    ]


def log_of(stack: KubeStack, name: str, component: str) -> str:
    return stack.get_text(f"/api/v1/clusters/{name}/logs?component={component}")


def events_of(stack: KubeStack, name: str) -> list[dict[str, str]]:
    found = stack.get(f"/api/v1/clusters/{name}/events")
    return list(found["events"])
