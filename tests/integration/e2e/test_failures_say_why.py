"""Whatever goes wrong, the stock client's exception says what and why.

Every client here is asynchronous: the synchronous one deadlocks on the next
connect of its process once a connect has failed (seen with 2026.3.0).
"""

import pytest
from dask_gateway import GatewayCluster
from dask_gateway.client import GatewayClusterError

from tests.integration.e2e.conftest import connect
from tests.support.eventually import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("flavour", "want"),
    [
        pytest.param("missing", ["no-such-dask-command"], id="missing-command"),
        pytest.param("exits", ["MARKER-7351", "3"], id="exits-3"),
        pytest.param("silent", ["20"], id="never-connects"),
    ],
)
async def test_a_scheduler_that_cannot_start_gives_its_reason(
    gateway, stack, flavour, want
):
    with pytest.raises(GatewayClusterError) as failed:
        await gateway.new_cluster(flavour=flavour)

    for text in want:
        assert text in str(failed.value)
    await eventually(lambda: not stack.jobs(), within=30)


async def test_crash_looping_workers_fail_the_cluster_with_their_last_words(
    gateway, stack
):
    async with await gateway.new_cluster(flavour="crashing") as cluster:
        await cluster.scale(2)

        async def failure() -> str:
            with pytest.raises(GatewayClusterError) as failed:
                await gateway._wait_for_start(cluster.name)
            return str(failed.value)

        await eventually(lambda: _failed(stack, cluster.name), within=90)
        text = await failure()
        events = stack.get(f"/api/v1/clusters/{cluster.name}/events")

    assert "WORKER-9911" in text
    assert "status 5" in text or "exit code 5" in text
    assert isinstance(events, dict)
    assert any(e["type"] == "Warning" for e in events["events"])
    await eventually(lambda: not stack.jobs(), within=30)


async def test_logs_of_a_failed_cluster_are_kept(gateway, stack):
    with pytest.raises(GatewayClusterError):
        await gateway.new_cluster(flavour="exits")
    failed = await gateway.list_clusters(status="failed")
    name = failed[-1].name

    async with connect(stack) as session:
        response = await session._request(
            "GET", f"{stack.address}/api/v1/clusters/{name}/logs?component=scheduler"
        )
        assert "MARKER-7351" in await response.text()


async def test_connecting_to_what_is_not_there_raises_and_never_goes_local(
    gateway, stack
):
    with pytest.raises(ValueError, match="not found"):
        await gateway.connect("no-such-cluster")
    name = await gateway.submit()
    await gateway.stop_cluster(name)
    with pytest.raises(GatewayClusterError):
        await gateway.connect(name)
    with pytest.raises(ValueError, match="not found"):
        async with GatewayCluster.from_name(
            "nobody", address=stack.address, auth=gateway.auth, asynchronous=True
        ):
            pass


def _failed(stack, name: str) -> bool:
    found = stack.get(f"/api/v1/clusters/{name}")
    return isinstance(found, dict) and found["status"] == "FAILED"
