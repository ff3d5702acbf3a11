"""Rows of `users.md`, A1, and W faults: an API server that is slow, deaf or away.

Each test has a controller of its own, and a proxy before the API server that does
to its calls what the row says.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web
from structlog.testing import capture_logs

from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.controller.settings import ControllerSettings
from gateway.aio.clock import SystemClock
from tests.harness.control_plane import ControlPlane
from tests.harness.ports import find_port
from tests.support.controllers import Site
from tests.support.controlling import build_settings, controlling
from tests.support.eventually import eventually
from tests.support.fault_proxy import (
    Delay,
    EndAfter,
    Fault,
    FaultProxy,
    Inject,
    Refuse,
    Reset,
    Swallow,
)
from tests.support.kubelet import StandInKubelet
from tests.support.settling import (
    WITHIN,
    answers,
    has_workers,
    runs,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kubelet"),
]

OUTAGE_S = 10.0
GONE = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}'
)
BUSY_QUOTA = (
    '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict",'
    '"message":"Operation cannot be fulfilled on resourcequotas \\"q\\": the object '
    "has been modified; please apply your changes to the latest version and try "
    'again","details":{"name":"q","kind":"resourcequotas"},"code":409}'
)


@pytest.fixture
async def connection(idle_site: Site) -> Connection:
    return await load_connection(str(idle_site.account.kubeconfig))


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(plane) as started:
        yield started


@pytest.fixture
def settings(idle_site: Site) -> ControllerSettings:
    return build_settings(idle_site)


async def test_row_02_slow_status_writes_leave_no_cluster_pending(
    idle_site: Site, connection, settings, proxy: FaultProxy
) -> None:
    site, draw = idle_site, random.Random(2)  # noqa: S311 - which calls are slow
    proxy.rule = lambda request: (
        Delay(draw.uniform(0, 0.3)) if request.path.endswith("/status") else None
    )

    async with controlling(connection, settings, proxy.url):
        for turn in range(3):
            names = [f"slow-{turn}-{n}" for n in range(6)]
            for name in names:
                site.make_cluster(name)
            for name in names:
                await answers(site, name)
            for name in names:
                site.api.delete(site.path(name))


async def test_row_03_a_watch_that_falls_silent_is_opened_anew(
    idle_site: Site, connection, settings, proxy: FaultProxy, monkeypatch
) -> None:
    monkeypatch.setattr("backends.kubernetes.api.informer.SILENCE_S", 2.0)
    site = idle_site
    async with controlling(connection, settings, proxy.url):
        site.make_cluster("deaf", replicas=1)
        await runs(site, "deaf", 1)
        # Whatever is open is cut once, and what opens then stays mute.
        proxy.rule = lambda request: Swallow() if is_watch(request) else None
        proxy.cut()
        opened = proxy.count("watch=1")
        await eventually(lambda: proxy.count("watch=1") >= opened + 3, within=WITHIN)
        site.scale("deaf", 3)
        proxy.rule = lambda _: None

        await has_workers(site, "deaf", 3)


async def test_row_03_a_controller_that_hears_nothing_fails_its_probe(
    connection, settings, proxy: FaultProxy, monkeypatch
) -> None:
    monkeypatch.setattr("backends.kubernetes.controller.server.STALE_S", 3.0)
    address = f"127.0.0.1:{find_port()}"
    settings = replace(settings, address=address)
    async with (
        controlling(connection, settings, proxy.url),
        ClientSession() as session,
    ):

        async def probe() -> tuple[int, str]:
            try:
                async with session.get(f"http://{address}/healthz") as answer:
                    return answer.status, await answer.text()
            except ClientError:
                return 0, "not there yet"

        # What is quiet has a bookmark in a minute; so the limit comes between.
        await eventually(lambda: is_so(probe, 200, "ok"), within=WITHIN)
        proxy.stall()
        await eventually(lambda: is_so(probe, 503, "no word of pods"), within=WITHIN)
        proxy.go_on()


async def test_row_04_resets_of_twenty_watches_in_a_row_are_outlived(
    idle_site: Site, connection, settings, proxy: FaultProxy
) -> None:
    site, left = idle_site, iter(range(20))

    def reset(request: web.Request) -> Fault | None:
        return Reset() if is_watch(request) and next(left, None) is not None else None

    proxy.rule = reset
    with capture_logs() as logs:
        async with controlling(connection, settings, proxy.url):
            await eventually(lambda: next(left, None) is None, within=WITHIN)
            site.make_cluster("reset", replicas=1)
            await runs(site, "reset", 1)

    # Each informer says once that it is cut off, and once that it is not any more.
    said = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert said.count("watch failed") <= 3
    assert [e["event"] for e in logs].count("watch is back") <= 3


@pytest.mark.parametrize(
    "form",
    [pytest.param(Inject(GONE), id="event"), pytest.param(Refuse(410), id="open")],
)
async def test_row_05_an_expired_watch_is_listed_anew_in_mid_scale(
    idle_site: Site, connection, settings, proxy: FaultProxy, form: Fault
) -> None:
    site, name = idle_site, f"expired-{type(form).__name__.lower()}"
    with capture_logs() as logs:
        async with controlling(connection, settings, proxy.url):
            site.make_cluster(name, replicas=2)
            await runs(site, name, 2)
            left = iter(range(6))
            proxy.rule = lambda request: (
                form
                if "resourceVersion=" in request.query_string
                and is_watch(request)
                and next(left, None) is not None
                else None
            )
            proxy.cut()
            site.scale(name, 5)
            await has_workers(site, name, 5)

    expired = [entry for entry in logs if entry["event"] == "watch expired"]
    assert {entry["log_level"] for entry in expired} == {"info"}
    assert site.workers(name) == [f"{name}-worker-{n}" for n in range(5)]


async def test_row_06_watches_that_end_are_no_trouble(
    idle_site: Site, connection, settings, proxy: FaultProxy
) -> None:
    site = idle_site
    proxy.rule = lambda request: EndAfter(0.3) if is_watch(request) else None
    with capture_logs() as logs:
        async with controlling(connection, settings, proxy.url):
            site.make_cluster("ends", replicas=1)
            await runs(site, "ends", 1)
            await eventually(lambda: proxy.count("watch=1") >= 40, within=WITHIN)
            site.scale("ends", 3)
            await has_workers(site, "ends", 3)

    assert find_troubles(logs) == []


async def test_rows_07_and_w24_an_outage_is_waited_for_and_told_once(
    idle_site: Site, connection, settings, proxy: FaultProxy
) -> None:
    site, clock = idle_site, SystemClock()
    with capture_logs() as logs:
        async with controlling(connection, settings, proxy.url):
            await eventually(lambda: proxy.count("watch=1") >= 3, within=WITHIN)
            proxy.rule = lambda _: Refuse(503, "away")
            proxy.cut()
            before = len(proxy.seen)
            site.make_cluster("outage", replicas=1)
            begun = clock.monotonic()
            await eventually(lambda: clock.monotonic() - begun > OUTAGE_S)
            lasted_s = clock.monotonic() - begun
            during = proxy.seen[before:]
            proxy.rule = lambda _: None
            await runs(site, "outage", 1)

    # dask-gateway asked 47,777 times in one second.
    asked = Counter(call.split("timeoutSeconds")[0] for call in during)
    assert max(asked.values()) <= lasted_s, asked
    noted = [e for e in logs if e["log_level"] in ("warning", "error")]
    assert len(noted) < 10, noted


async def test_row_18_a_slow_cluster_delays_no_other(
    idle_site: Site, connection, settings, proxy: FaultProxy, make_namespace
) -> None:
    site, slow = idle_site, make_namespace("slow")
    await asyncio.to_thread(site.prepare, slow)
    settings = replace(settings, namespaces=(*site.targets, slow))
    proxy.rule = lambda request: (
        Delay(5.0) if slow in request.path and request.method != "GET" else None
    )
    async with controlling(connection, settings, proxy.url) as metrics:
        site.make_cluster("slow", targetNamespace=slow)
        await eventually(lambda: proxy.count(f"/{slow}/services"), within=WITHIN)
        names = [f"quick-{n}" for n in range(12)]
        for name in names:
            site.make_cluster(name)
        for name in names:
            await eventually(lambda n=name: site.pods(n), within=WITHIN)
        late = site.pods("slow", slow)
        shown = metrics.registry.get_sample_value("daskfleet_queue_wait_seconds_count")

    assert late == []
    assert shown
    assert shown >= len(names)


async def test_row_29_conflicts_over_a_quota_leave_no_worker_unmade(
    idle_site: Site, connection, settings, proxy: FaultProxy
) -> None:
    site, draw = idle_site, random.Random(29)  # noqa: S311 - which calls are refused

    def conflict(request: web.Request) -> Fault | None:
        is_create = request.method == "POST" and request.path.endswith("/pods")
        return Refuse(409, BUSY_QUOTA) if is_create and draw.random() < 0.3 else None

    proxy.rule = conflict
    async with controlling(connection, settings, proxy.url):
        site.make_cluster("contended", replicas=20)
        await runs(site, "contended", 20)


async def test_w8_a_pod_that_is_gone_before_it_is_deleted_is_no_failure(
    idle_site: Site, connection, settings, proxy: FaultProxy, kubelet: StandInKubelet
) -> None:
    site = idle_site
    async with controlling(connection, settings, proxy.url):
        site.make_cluster("vanishes", replicas=2)
        await runs(site, "vanishes", 2)
        with capture_logs() as logs:
            is_asked = []

            def delete_first(request: web.Request) -> Fault | None:
                if request.method == "DELETE" and "/pods/" in request.path:
                    # Somebody is faster by a moment.
                    now = {"gracePeriodSeconds": 0}
                    is_asked.append(site.api.call("DELETE", request.path, now).status)
                return None

            proxy.rule = delete_first
            kubelet.end(site.targets[0], "vanishes-worker-0", 1)
            want = ["vanishes-worker-1", "vanishes-worker-2"]
            await eventually(lambda: site.workers("vanishes") == want, within=WITHIN)
            await has_workers(site, "vanishes", 2)

    assert is_asked == [200]
    assert find_troubles(logs) == []


def find_troubles(logs: list[MutableMapping[str, Any]]) -> list[Any]:
    """Return warnings and errors; not of the lease, which a busy machine may miss."""
    bad = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    return [entry for entry in bad if "lease" not in entry]


async def is_so(
    probe: Callable[[], Awaitable[tuple[int, str]]], status: int, text: str
) -> bool:
    code, said = await probe()
    return code == status and text in said


def is_watch(request: web.Request) -> bool:
    return "watch=1" in request.query_string and "leases" not in request.path
