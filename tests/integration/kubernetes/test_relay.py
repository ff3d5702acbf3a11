"""Logs and events by way of the controller's replicas."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from backends.kubernetes.backend.relay import Relay, RelaySettings, split_lines
from backends.kubernetes.crd.values import ClusterStatus, DaskCluster
from gateway.aio.clock import SystemClock
from gateway.domain.cluster import ClusterPhase
from gateway.domain.errors import Unavailable
from gateway.ports import LogQuery
from tests.harness.ports import find_port
from tests.support import secrets
from tests.support.eventually import eventually

pytestmark = pytest.mark.integration

TOKEN = "made-up-relay-token"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
FAILED = DaskCluster(
    name="c1",
    namespace="gateway",
    uid="u",
    resource_version="7",
    status=ClusterStatus(
        phase=ClusterPhase.FAILED,
        reason="SchedulerEnded",
        message="exit status 3",
        completion_time=datetime(2026, 1, 1, tzinfo=UTC),
        log_tail=("one", "two"),
    ),
)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Answer], Awaitable[str]]]:
    """Serve one answer on a port, as a replica, and return its URL."""
    async with AsyncExitStack() as stack:

        async def start(answer: Answer) -> str:
            app = web.Application()
            app.router.add_get("/{path:.*}", answer)
            server = await stack.enter_async_context(TestServer(app))
            return str(server.make_url("/"))

        yield start


@asynccontextmanager
async def relay(
    folder: Path,
    *urls: str,
    token: str = TOKEN,
    known: DaskCluster | None = None,
) -> AsyncIterator[Relay]:
    secrets.remember(token, "the relay's token")
    file = folder / "token"
    file.write_text(token + "\n")
    made = Relay(RelaySettings(urls, str(file)), lambda _: known, SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def read(relay: Relay, query: LogQuery | None = None) -> list[str]:
    return [line async for line in relay.read_logs("c1", query or LogQuery())]


async def two_lines(request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return web.Response(status=401)
    return web.Response(text=f"{request.path_qs}\nlast")


async def test_lines_come_with_what_was_asked_for(serve: Any, tmp_path: Path) -> None:
    query = LogQuery("worker", "c1-worker-3", tail=5)
    async with relay(tmp_path, await serve(two_lines)) as asked:
        lines = await read(asked, query)

    path = "/v1/clusters/c1/logs?component=worker&tail=5&worker=c1-worker-3"
    assert lines == [path, "last"]


async def test_another_replica_is_asked_when_one_is_away_frozen_or_starting(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.kubernetes.backend.relay._ANSWER_S", 0.3)
    asked: list[str] = []

    async def starting(_: web.Request) -> web.Response:
        asked.append("starting")
        return web.Response(status=503)

    async def frozen(_: web.Request) -> web.Response:
        asked.append("frozen")
        await asyncio.Event().wait()
        raise AssertionError

    away = f"http://127.0.0.1:{find_port()}"
    urls = [away, await serve(starting), await serve(frozen), await serve(two_lines)]
    async with relay(tmp_path, *urls) as replicas:
        first, second = await read(replicas), await read(replicas)

    # Who has answered is asked first from then on.
    assert first[-1] == second[-1] == "last"
    assert asked == ["starting", "frozen"]


async def test_without_any_replica_it_is_said_which_and_why(
    serve: Any, tmp_path: Path
) -> None:
    away = f"http://127.0.0.1:{find_port()}"
    urls = (away, await serve(two_lines))
    async with relay(tmp_path, *urls, token="another-token") as asked:
        with pytest.raises(Unavailable) as caught:
            await read(asked)

    text = str(caught.value)
    assert f"{away.removeprefix('http://')}: cannot connect" in text
    assert "refuses our token" in text
    assert "another-token" not in text


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (RelaySettings(), "relay_urls"),
        (RelaySettings(("http://127.0.0.1:1",)), "no token"),
        (RelaySettings(("http://127.0.0.1:1",), "/nowhere/token"), "/nowhere/token"),
    ],
)
async def test_what_is_not_configured_is_named(
    settings: RelaySettings, why: str
) -> None:
    asked = Relay(settings, lambda _: None, SystemClock())
    try:
        with pytest.raises(Unavailable, match=why):
            await read(asked)
    finally:
        await asked.close()


async def test_of_an_ended_cluster_the_status_tells_the_last(
    serve: Any, tmp_path: Path
) -> None:
    async def gone(_: web.Request) -> web.Response:
        return web.Response(status=404)

    away = f"http://127.0.0.1:{find_port()}"
    for url in (await serve(gone), away):
        async with relay(tmp_path, url, known=FAILED) as asked:
            lines, events = await read(asked), await asked.list_events("c1")

        assert lines == ["one", "two"]
        assert "SchedulerEnded" in [event.reason for event in events]

    # The last one asked was away, and that is told, too.
    assert [event.reason for event in events] == ["SchedulerEnded", "ControllerAway"]
    assert "cannot connect" in events[-1].message


@pytest.mark.parametrize("said", ["{", '[{"time_ms": "soon"}]'])
async def test_what_is_no_list_of_events_is_told(
    serve: Any, tmp_path: Path, said: str
) -> None:
    async def odd(_: web.Request) -> web.Response:
        return web.Response(text=said)

    async with relay(tmp_path, await serve(odd)) as asked:
        events = await asked.list_events("c1")

    assert [event.reason for event in events] == ["ControllerAway"]


async def test_a_follower_that_goes_lets_the_replica_go(
    serve: Any, tmp_path: Path
) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"again\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with relay(tmp_path, await serve(endless)) as asked:
        async with aclosing(asked.read_logs("c1", LogQuery(follow=True))) as lines:
            seen = [await anext(lines) for _ in range(3)]
        assert await eventually(ended.is_set)

    assert seen == ["again"] * 3


async def test_a_replica_that_breaks_off_is_no_end_of_the_log(
    serve: Any, tmp_path: Path
) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with (
        relay(tmp_path, await serve(broken), known=FAILED) as asked,
        aclosing(asked.read_logs("c1", LogQuery(follow=True))) as lines,
    ):
        assert await anext(lines) == "first"
        with pytest.raises(Unavailable, match="broke off"):
            await anext(lines)


async def test_lines_of_any_length_and_bytes_are_passed_on() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b\n\xff\n", b"x" * 600_000, b"\nend"):
            yield chunk

    lines = [line async for line in split_lines(chunks())]

    assert lines[:2] == ["ab", "\ufffd"]
    assert lines[-1] == "end"
    assert "".join(lines[2:-1]) == "x" * 600_000
    assert max(map(len, lines)) <= 2**18


@pytest.mark.parametrize(
    ("body", "status"), [(b"nonsense", 200), (b"[{}]", 200), (b"busy", 503)]
)
async def test_a_list_of_workers_that_cannot_be_had_is_none(
    serve, tmp_path, body, status
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status)

    async with relay(tmp_path, await serve(answer)) as asked:
        assert await asked.list_workers("c1") is None
