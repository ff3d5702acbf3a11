"""Informers against a real API server, with all that can happen to a watch between."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.api.informer import STALE_S, Informer, Scope
from backends.kubernetes.api.resources import SERVICES
from backends.kubernetes.names import LABEL_CLUSTER
from backends.kubernetes.observed.services import ServiceView, parse_service
from gateway.aio.clock import SystemClock
from gateway.aio.tasks import Supervisor
from tests.harness.api import KubeApi
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Inject, Refuse

pytestmark = pytest.mark.integration

RULES = [
    {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
]
TOO_OLD = json.dumps(
    {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "code": 410,
            "reason": "Expired",
            "message": "old",
        },
    }
).encode()


class Services:
    """Services in a namespace, as a test makes them."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}/services"

    def make(self, name: str, cluster: str = "c1") -> None:
        spec = {"clusterIP": "None", "ports": [{"port": 1}], "selector": {"a": "b"}}
        labels = {LABEL_CLUSTER: cluster, "ours": "yes"}
        self.api.post(
            self.path, {"metadata": {"name": name, "labels": labels}, "spec": spec}
        )

    def change(self, name: str, cluster: str) -> None:
        patch = {"metadata": {"labels": {LABEL_CLUSTER: cluster}}}
        self.api.patch(f"{self.path}/{name}", patch)

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.path}/{name}")


@pytest.fixture
def services(apiserver, namespace) -> Services:
    return Services(apiserver.client(), namespace)


@pytest.fixture
async def connection(service_account) -> Connection:
    return await load_connection(str(service_account("informer", RULES).kubeconfig))


@pytest.fixture
async def proxy(apiserver) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(apiserver) as started:
        yield started


class Seen:
    """Names that an informer told of, as often as it did."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def __call__(self, view: ServiceView) -> None:
        self.names[view.name] += 1


@asynccontextmanager
async def following(
    connection: Connection,
    *,
    url: str = "",
    on_change: Callable[[ServiceView], None] = lambda _: None,
) -> AsyncIterator[Informer[ServiceView]]:
    client = KubeClient(connection, url=url)
    informer = Informer(
        client,
        Scope(SERVICES, connection.namespace, "ours=yes"),
        decode=parse_service,
        on_change=on_change,
        clock=SystemClock(),
    )
    async with Supervisor() as tasks:
        tasks.start("informer", informer.run)
        yield informer
    await client.close()


def names(informer: Informer[ServiceView]) -> set[str]:
    return {view.name for view in informer.cache}


async def shows(informer: Informer[ServiceView], *want: str) -> None:
    def check() -> bool:
        assert names(informer) == set(want)
        return True

    await eventually(check, within=60)


async def test_what_was_there_and_what_comes_and_goes_is_seen(
    connection, services: Services
) -> None:
    services.make("a")
    seen = Seen()
    async with following(connection, on_change=seen) as informer:
        await shows(informer, "a")
        services.make("b", "c2")
        await shows(informer, "a", "b")
        services.change("a", "c2")
        await eventually(lambda: len(informer.cache.of_cluster("c2")) == 2)
        services.delete("b")
        await shows(informer, "a")

    assert informer.is_synced
    assert informer.cache.of_cluster("c1") == ()
    assert seen.names == {"a": 2, "b": 2}


async def test_a_list_and_its_watch_are_one_call(
    connection, services: Services, proxy: FaultProxy
) -> None:
    services.make("a")
    async with following(connection, url=proxy.url) as informer:
        await shows(informer, "a")
        services.make("b")
        await shows(informer, "a", "b")

    assert proxy.count("/services") == 1
    assert proxy.count("sendInitialEvents") == 1


async def test_a_server_without_streamed_lists_is_asked_for_plain_ones(
    connection, services: Services, proxy: FaultProxy
) -> None:
    body = json.dumps({"kind": "Status", "message": "sendInitialEvents is forbidden"})
    proxy.rule = lambda request: (
        Refuse(422, body) if "sendInitialEvents" in request.path_qs else None
    )
    services.make("a")
    async with following(connection, url=proxy.url) as informer:
        await shows(informer, "a")
        services.make("b")
        await shows(informer, "a", "b")
        proxy.cut()
        services.make("c")
        await shows(informer, "a", "b", "c")

    assert proxy.count("sendInitialEvents") == 1
    assert proxy.count("resourceVersion=0") == 1


async def test_a_cut_watch_goes_on_where_it_was(
    connection, services: Services, proxy: FaultProxy
) -> None:
    services.make("a")
    seen = Seen()
    async with following(connection, url=proxy.url, on_change=seen) as informer:
        await shows(informer, "a")
        proxy.cut()
        services.make("b")
        services.delete("a")
        await shows(informer, "b")

    assert proxy.count("sendInitialEvents") == 1
    assert seen.names == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Inject(TOO_OLD), id="within-the-watch"),
        pytest.param(
            Refuse(410, json.dumps({"kind": "Status", "code": 410})), id="by-http"
        ),
    ],
)
async def test_after_410_the_difference_to_a_new_list_is_told(
    connection, services: Services, proxy: FaultProxy, fault
) -> None:
    services.make("kept")
    services.make("gone")
    seen = Seen()
    async with following(connection, url=proxy.url, on_change=seen) as informer:
        await shows(informer, "kept", "gone")
        proxy.rule = lambda r: None if "sendInitialEvents" in r.path_qs else fault
        services.delete("gone")
        await shows(informer, "kept")
        before = dict(seen.names)
        proxy.cut()
        await eventually(lambda: proxy.count("sendInitialEvents") == 2)
        services.make("new")
        await shows(informer, "kept", "new")

    assert before == {"kept": 1, "gone": 2}
    assert seen.names == {"kept": 1, "gone": 2, "new": 1}


async def test_what_went_while_nobody_watched_is_told_after_410(
    connection, services: Services, proxy: FaultProxy
) -> None:
    services.make("gone")
    seen = Seen()
    async with following(connection, url=proxy.url, on_change=seen) as informer:
        await shows(informer, "gone")
        proxy.rule = lambda _: Refuse(503)
        proxy.cut()
        services.delete("gone")
        await eventually(lambda: len(proxy.seen) > 2)
        assert names(informer) == {"gone"}
        too_old = Refuse(410, json.dumps({"kind": "Status", "code": 410}))
        proxy.rule = lambda r: None if "sendInitialEvents" in r.path_qs else too_old
        await shows(informer)

    assert seen.names == {"gone": 2}


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Refuse(500, "broken"), id="500"),
        pytest.param(Refuse(429, "busy", {"Retry-After": "1"}), id="429"),
        pytest.param(Refuse(403, '{"kind": "Status"}'), id="403"),
    ],
)
async def test_w24_a_server_that_refuses_is_asked_ever_less_often(
    connection, services: Services, proxy: FaultProxy, refusal
) -> None:
    proxy.rule = lambda _: refusal
    services.make("a")
    async with following(connection, url=proxy.url) as informer:
        await eventually(lambda: len(proxy.seen) >= 3, within=60)
        assert not informer.is_synced
        proxy.rule = lambda _: None
        await shows(informer, "a")

    # dask-gateway asks more than 200 times a second.
    assert len(proxy.seen) < 20


async def test_silence_makes_a_watch_old_and_a_word_makes_it_young(
    connection, services: Services, proxy: FaultProxy
) -> None:
    services.make("a")
    clock = SystemClock()
    async with following(connection, url=proxy.url) as informer:
        await shows(informer, "a")
        proxy.stall()
        age = informer.age_s
        begun = clock.monotonic()
        await eventually(lambda: clock.monotonic() - begun > 0.5)
        older = informer.age_s
        services.make("b")
        proxy.go_on()
        await shows(informer, "a", "b")
        younger = informer.age_s

    assert age < older < STALE_S
    assert younger < older


async def test_an_api_server_that_is_killed_and_comes_back_is_followed_again(
    apiserver, connection, services: Services
) -> None:
    services.make("a")
    async with following(connection) as informer:
        await shows(informer, "a")
        await asyncio.to_thread(apiserver.apiserver.restart)
        services.api.close()
        services.make("b")
        services.delete("a")
        await shows(informer, "b")


async def test_thousands_of_objects_do_not_hold_the_loop(
    connection, services: Services
) -> None:
    for number in range(300):
        services.make(f"s{number}")
    async with following(connection) as informer:
        await eventually(lambda: len(informer.cache) == 300, within=60)

    assert len(informer.cache.of_cluster("c1")) == 300
