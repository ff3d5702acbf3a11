"""The API behind a real Traefik: restarts, uploads, spoofed headers, odd clients."""

import asyncio
import io
import resource
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.traefik import (
    Upstream,
    address_of,
    request_raw,
    running,
    traefik,
    visitor,
)

pytestmark = pytest.mark.integration


async def test_a_request_waits_for_a_gateway_that_restarts(tmp_path: Path) -> None:
    api = Upstream("api")
    async with traefik(tmp_path, gateway_urls=(api.url,)) as routes:
        async with visitor(routes) as session, asyncio.TaskGroup() as group:
            asked = group.create_task(_get_server(session, "/api/version"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asked), 3)
            await api.start()
        await api.stop()

    assert asked.result() == (200, "api")


async def test_a_wait_that_loses_its_gateway_is_asked_again(tmp_path: Path) -> None:
    """The stock client deletes its cluster on a 502 of `?wait`."""
    port_holder = Upstream("api")
    arrived = asyncio.Event()

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        writer.transport.abort()

    dying = await asyncio.start_server(drop, "127.0.0.1", port_holder.port)
    async with traefik(tmp_path, gateway_urls=(port_holder.url,)) as routes:
        async with visitor(routes) as session, asyncio.TaskGroup() as group:
            asked = group.create_task(_get_server(session, "/api/v1/clusters/a?wait"))
            await asyncio.wait_for(arrived.wait(), 30)
            dying.close()
            await dying.wait_closed()
            await port_holder.start()
        await port_holder.stop()

    assert asked.result() == (200, "api")


async def test_a_create_that_may_have_happened_is_not_repeated(tmp_path: Path) -> None:
    calls = 0

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        await reader.readuntil(b"\r\n\r\n")
        calls += 1
        writer.transport.abort()

    dying = await asyncio.start_server(drop, "127.0.0.1", 0)
    port = dying.sockets[0].getsockname()[1]
    async with (
        traefik(tmp_path, gateway_urls=(f"http://127.0.0.1:{port}",)) as routes,
        visitor(routes) as session,
        session.post("/api/v1/clusters/", json={}) as answer,
    ):
        assert (answer.status, calls) == (502, 1)
    dying.close()
    await dying.wait_closed()


async def test_one_of_two_gateways_is_enough(tmp_path: Path) -> None:
    api = Upstream("api")
    urls = ("http://127.0.0.1:1", api.url)
    async with (
        running(api),
        traefik(tmp_path, gateway_urls=urls) as routes,
        visitor(routes) as session,
    ):
        answers = [await _get_server(session, "/api/version") for _ in range(4)]

    assert answers == [(200, "api")] * 4


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_upload_of_five_megabytes_arrives_whole(
    tmp_path: Path, method: str
) -> None:
    api = Upstream("api")
    body = io.BytesIO(b"x" * (5 << 20))
    async with (
        running(api),
        traefik(tmp_path, gateway_urls=(api.url,)) as routes,
        visitor(routes) as session,
        session.request(method, "/api/upload", data=body) as answer,
    ):
        assert (answer.status, (await answer.json())["bytes"]) == (200, 5 << 20)


async def test_a_prefix_is_stripped_before_the_api(tmp_path: Path) -> None:
    api = Upstream("api")
    async with (
        running(api),
        traefik(
            tmp_path, gateway_urls=(api.url,), prefix="/services/dask-gateway"
        ) as routes,
        visitor(routes) as session,
    ):
        async with session.get("/services/dask-gateway/api/v1/me?x=1") as answer:
            assert (await answer.json())["path"] == "/api/v1/me?x=1"
        assert (await _get_status(session, "/api/v1/me")) == 404


async def test_only_the_api_is_reachable_at_the_gateway(tmp_path: Path) -> None:
    """Metrics and the like are for the gateway's own address."""
    api = Upstream("api")
    async with (
        running(api),
        traefik(tmp_path, gateway_urls=(api.url,)) as routes,
        visitor(routes) as session,
    ):
        for path in ("/metrics", "/", "/ping", "/dashboard/", "/api%2Fv1", "/apix/"):
            assert await _get_status(session, path) == 404, path
    assert api.seen == []


async def test_a_visitor_cannot_pretend_to_come_from_elsewhere(tmp_path: Path) -> None:
    api = Upstream("api")
    lies = (
        "X-Forwarded-For: 6.6.6.6",
        "X-Forwarded-Host: evil.example",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Uri: /clusters/b/status",
        "X-Forwarded-Method: DELETE",
        "X-Forwarded-Prefix: /evil",
        "X-Real-Ip: 6.6.6.6",
        "X_Forwarded_For: 6.6.6.6",
        "X_Real_Ip: 6.6.6.6",
        "Forwarded: for=6.6.6.6;host=evil.example",
    )
    async with running(api), traefik(tmp_path, gateway_urls=(api.url,)) as routes:
        status, _ = await request_raw(routes, "/api/version", *lies)

    headers = api.seen[0]["headers"]
    text = str(headers)
    assert status == 200
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-forwarded-host"] == "gateway"
    assert not [
        lie for lie in ("6.6.6.6", "evil", "/clusters/b", "DELETE") if lie in text
    ]


async def test_a_trusted_load_balancer_is_believed(tmp_path: Path) -> None:
    api = Upstream("api")
    async with (
        running(api),
        traefik(
            tmp_path, gateway_urls=(api.url,), trusted_proxies=("127.0.0.1/32",)
        ) as routes,
    ):
        await request_raw(routes, "/api/version", "X-Forwarded-Proto: https")

    assert api.seen[0]["headers"]["x-forwarded-proto"] == "https"


async def test_w23_idle_connections_and_garbage_do_not_end_the_proxy(
    tmp_path: Path,
) -> None:
    api = Upstream("api")
    async with running(api), traefik(tmp_path, gateway_urls=(api.url,)) as routes:
        pid = routes.pid
        assert pid is not None
        # As many descriptors as the peer's proxy had when it crashed.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
        starts = (b"", b"\x16", b"\x16\x03\x01\xff\xff", b"\x00" * 64, b"GET / HT")
        opened = []
        for number in range(150):
            _, writer = await asyncio.open_connection(*address_of(routes))
            writer.write(starts[number % len(starts)])
            opened.append(writer)
        for writer in opened:
            writer.transport.abort()
        async with visitor(routes) as session:

            async def answers() -> bool:
                return await _get_status(session, "/api/version") == 200

            await eventually(answers, within=60)

        assert routes.pid == pid


async def test_w23_silent_connections_end_and_held_requests_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the proxy's read timeout made short: 600 s is too long for a test."""
    monkeypatch.setattr("backends.routing.static._READ_TIMEOUT", "1s")
    release = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nheld")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with (
        traefik(tmp_path, gateway_urls=(url,)) as routes,
        visitor(routes) as session,
        asyncio.TaskGroup() as group,
    ):
        held = group.create_task(_get_text(session, "/api/v1/clusters/a?wait"))
        for start in (b"", b"\x16\x03\x01\xff\xff", b"GET / HT"):
            reader, writer = await asyncio.open_connection(*address_of(routes))
            writer.write(start)
            await asyncio.wait_for(reader.read(), 30)  # returns at its end only
            writer.transport.abort()
        release.set()
    server.close()
    await server.wait_closed()

    assert held.result() == "held"


async def _get_text(session, path: str) -> str:
    async with session.get(path) as answer:
        return await answer.text()


async def _get_server(session, path: str) -> tuple[int, str | None]:
    async with session.get(path) as answer:
        text = await answer.text()
        return answer.status, "api" if '"server": "api"' in text else text


async def _get_status(session, path: str) -> int:
    async with session.get(path) as answer:
        return answer.status
