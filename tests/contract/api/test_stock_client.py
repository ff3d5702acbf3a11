"""The unmodified ``dask-gateway`` client against the REST API, without a proxy."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from dask_gateway import BasicAuth, Gateway, GatewayClusterError, GatewayServerError
from dask_gateway.client import ClusterStatus, GatewayWarning

from gateway.domain.options import Float, Integer, Options, Select, String
from tests.support.builders import KEYS, a_cluster
from tests.support.eventually import eventually

OPTIONS = Options(
    Integer("cores", 1, min=1, max=4, label="Cores"),
    Float("memory", 2, min=1, max=8),
    Select("image", ["small", ("large", "registry/large")]),
    String("mark", "none"),
)


@pytest.fixture
async def client(api) -> AsyncIterator[Gateway]:
    api.backend.options = OPTIONS
    async with connect(api, "alice") as session:
        yield session


def connect(api, user, password="") -> Gateway:
    return Gateway(api.url, auth=BasicAuth(user, password), asynchronous=True)


async def test_versions_are_told(client):
    versions = await client._get_versions()

    assert versions["server"]["version"]


async def test_options_become_a_form_and_are_checked_on_both_sides(client):
    options = await client.cluster_options()

    assert dict(options) == {"cores": 1, "memory": 2, "image": "small", "mark": "none"}
    with pytest.raises(ValueError, match="cores must be <="):
        options.cores = 9
    with pytest.raises(ValueError, match="cores must be <="):
        await client.submit(cores=9)
    with pytest.raises(ValueError, match="Unknown fields"):
        await client.submit(colour="red")


async def test_a_cluster_is_submitted_listed_shown_and_stopped(api, client):
    name = await client.submit(cores=2)
    await api.backend.run(name)

    [listed] = await client.list_clusters()
    shown = await client.get_cluster(name)
    await client.stop_cluster(name)

    assert (listed.name, listed.status) == (name, ClusterStatus.RUNNING)
    assert listed.security is None
    assert shown.options == {"cores": 2, "memory": 2, "image": "small", "mark": "none"}
    assert shown.scheduler_address.endswith(f"/{name}")
    assert (shown.tls_cert, shown.tls_key) == (KEYS.certificate, KEYS.key)
    assert shown.stop_time is None
    assert await client.list_clusters() == []
    assert [r.name for r in await client.list_clusters(status="stopped")] == [name]
    both = await client.list_clusters(status=["running", ClusterStatus.STOPPED])
    assert [r.name for r in both] == [name]


async def test_the_dashboards_link_opens_without_a_password(api, client):
    name = await client.submit()
    await api.backend.run(name)

    link = (await client.get_cluster(name)).dashboard_link
    answer = await api.get(
        "/api/v1/dashboard-auth", headers={"X-Forwarded-Uri": urlsplit(link).path}
    )

    assert link.startswith(f"{api.url}/clusters/{name}/login/")
    assert answer.headers["Location"] == f"/clusters/{name}/status"


async def test_waiting_ends_when_the_cluster_runs(api, client):
    name = await client.submit()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(client._wait_for_start(name))
        await eventually(lambda: "wait_for_change" in api.backend.calls)
        await api.backend.run(name)

    assert waiting.result().status is ClusterStatus.RUNNING


async def test_a_failed_start_says_why_in_the_clients_exception(api, client):
    api.backend.add(
        a_cluster("c1").failed("StartFailed", "exit status 3", "MARKER-1").build()
    )

    with pytest.raises(GatewayClusterError) as caught:
        await client._wait_for_start("c1")

    assert "StartFailed: exit status 3" in str(caught.value)
    assert "MARKER-1" in str(caught.value)


async def test_a_stopped_cluster_cannot_be_waited_for(api, client):
    api.backend.add(a_cluster("c1").stopped().build())

    with pytest.raises(GatewayClusterError, match="already stopped"):
        await client._wait_for_start("c1")


async def test_sizes_are_accepted_and_cut_with_a_warning(api, client):
    api.backend.max_workers = 3
    name = await client.submit()
    await client.scale_cluster(name, 2)
    with pytest.warns(GatewayWarning, match="Scaling to 3 instead"):
        await client.scale_cluster(name, 4)
    await client.adapt_cluster(name, minimum=1, maximum=2)
    with pytest.warns(GatewayWarning, match="Using `maximum=3, minimum=1` instead"):
        await client.adapt_cluster(name, minimum=1, maximum=9)
    bounds = api.backend.entries[name].adaptive
    await client.adapt_cluster(name, active=False)

    assert (bounds.minimum, bounds.maximum) == (1, 3)
    assert api.backend.entries[name].adaptive is None


async def test_what_is_refused_is_the_exception_that_people_know(api, client):
    api.backend.add(a_cluster("foreign").of("bob").running().build())
    api.backend.add(a_cluster("over").stopped().build())

    for name in ("foreign", "absent"):
        with pytest.raises(ValueError, match=f"Cluster {name} not found"):
            await client.get_cluster(name)
        with pytest.raises(ValueError, match=f"Cluster {name} not found"):
            await client.scale_cluster(name, 1)
        await client.stop_cluster(name)
    with pytest.raises(GatewayClusterError, match="not running"):
        await client.scale_cluster("over", 1)
    with pytest.raises(ValueError, match="non-negative"):
        await client.scale_cluster("over", -1)
    with pytest.raises(ValueError, match="not a valid ClusterStatus"):
        await client._request("GET", f"{api.url}/api/v1/clusters/?status=nope")
    assert api.backend.entries["foreign"].cluster.status == "RUNNING"


async def test_a_bug_is_a_server_error(api, client):
    async def break_down(*_args):
        raise RuntimeError("a detail")

    api.backend.start_cluster = break_down

    with pytest.raises(GatewayServerError, match="its log has the reason"):
        await client.submit()


async def test_one_login_serves_many_calls_and_a_new_one_is_made_by_itself(api, client):
    asked = []
    authenticate = api.app[next(iter(api.app))].authenticator.authenticate

    async def count(request):
        asked.append(request.headers.get("Authorization") is not None)
        return await authenticate(request)

    object.__setattr__(
        api.app[next(iter(api.app))].authenticator, "authenticate", count
    )
    for _ in range(3):
        await client.list_clusters()
    api.clock.advance(301)
    await client.list_clusters()

    assert asked == [False, True, False, True]


@pytest.mark.parametrize("name", ["zoë", "Ann-Marie O'Neil", "a@b.example"])
async def test_names_that_the_client_can_send_arrive(api, name):
    async with connect(api, name) as client:
        created = await client.submit()

    assert api.backend.entries[created].cluster.owner == name
