"""Whatever a client sends, the answer is no 5xx and changes nothing it should not."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.api import Api, running_api
from tests.support.builders import a_cluster, basic

# Each example starts a server of its own and sends several requests to it.
FEWER = settings(max_examples=max(10, settings.default.max_examples // 3))

PATHS = (
    "/api/v1/clusters/",
    "/api/v1/clusters/c1/scale",
    "/api/v1/clusters/c1/adapt",
    "/api/v1/clusters/c1/sync",
    "/api/v1/clusters/c1/heartbeat",
)
KEYS = st.sampled_from(
    [
        "cluster_options",
        "count",
        "minimum",
        "maximum",
        "active",
        "protocol",
        "wait_s",
        "seen",
        "workers",
        "ports",
        "held",
        "target",
        "closing_workers",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            KEYS | st.text(st.characters(), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=10,
)
BODIES = (
    st.dictionaries(KEYS, VALUES, max_size=6).map(lambda v: json.dumps(v).encode())
    | VALUES.map(lambda v: json.dumps(v).encode())
    | st.binary(max_size=100)
)
# What may stand in a header's value on the wire; line ends would end it.
RAW = st.binary(max_size=60).map(lambda raw: raw.translate(None, b"\r\n\0"))


async def send_raw(api: Api, head: bytes, body: bytes = b"") -> bytes:
    """Return the status line that ``head`` and ``body`` are answered with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    try:
        writer.write(head + body)
        await writer.drain()
        return await asyncio.wait_for(reader.readline(), 60)
    finally:
        writer.close()
        await writer.wait_closed()


def parse_status(line: bytes) -> int:
    return int(line.split()[1])


@FEWER
@given(bodies=st.lists(BODIES, min_size=1, max_size=5), as_cluster=st.booleans())
async def test_no_body_is_a_server_error_and_no_refusal_changes_anything(
    bodies, as_cluster
):
    async with running_api(wait_s=0.01) as api:
        entry = api.backend.add(a_cluster().running().build())
        token = {"Authorization": f"token {entry.token}"}
        for body in bodies:
            for path in PATHS:
                before = snapshot(api)
                headers = token if as_cluster else basic("alice")
                async with asyncio.timeout(60):
                    answer = await api.post(
                        path, headers=headers, data=without_long_waits(body)
                    )
                assert answer.status < 500 or is_told_no(path, answer)
                if answer.status >= 400:
                    assert snapshot(api) == before
                    assert answer.json["error"]


@FEWER
@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"Authorization",
                    b"Cookie",
                    b"Origin",
                    b"X-Request-ID",
                    b"X-Forwarded-For",
                    b"X-Forwarded-Host",
                    b"X-Forwarded-Uri",
                    b"X-Forwarded-Proto",
                    b"Content-Type",
                    b"Accept-Encoding",
                    b"Sec-Fetch-Site",
                    b"User-Agent",
                ]
            ),
            RAW
            | RAW.map(lambda raw: b"Basic " + raw)
            | RAW.map(lambda raw: b"token " + raw)
            | RAW.map(lambda raw: b"daskfleet-session=" + raw)
            | RAW.map(lambda raw: b"/clusters/" + raw),
        ),
        max_size=6,
    ),
    path=st.sampled_from(
        [b"/api/v1/clusters/", b"/api/v1/clusters/c1", b"/api/v1/dashboard-auth"]
    ),
)
async def test_no_header_is_a_server_error(headers, path):
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    async with running_api() as api:
        api.backend.add(a_cluster().running().build())
        for method, body in ((b"GET", b""), (b"DELETE", b""), (b"POST", b"{}")):
            head = b"%b %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n" % (
                method,
                path,
                len(body),
                lines,
            )
            assert 200 <= parse_status(await send_raw(api, head, body)) < 500


@FEWER
@given(
    tail=RAW.map(lambda raw: raw.replace(b" ", b"")),
    query=RAW.map(lambda raw: raw.replace(b" ", b"")),
)
async def test_no_path_and_no_query_is_a_server_error(tail, query):
    user = basic("alice")["Authorization"].encode()
    async with running_api(wait_s=0.01) as api:
        api.backend.add(a_cluster().running().build())
        for target in (
            b"/api/v1/clusters/" + tail,
            b"/api/v1/clusters/?" + query,
            b"/api/v1/clusters/?status=" + query,
            b"/api/v1/clusters/c1?wait=" + query,
            b"/api/v1/clusters/c1/logs?" + query,
            b"/api/v1/clusters/c1/logs?tail=" + query,
            b"/clusters/" + tail,
            b"/" + tail,
        ):
            head = b"GET %b HTTP/1.1\r\nHost: x\r\nAuthorization: %b\r\n\r\n" % (
                target,
                user,
            )
            assert 200 <= parse_status(await send_raw(api, head)) < 500


async def test_a_body_that_breaks_off_harms_nobody():
    head = (
        b"POST /api/v1/clusters/ HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: %b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"
        % basic("alice")["Authorization"].encode()
    )
    async with running_api() as api:
        _, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(head)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

        answer = await api.get("/api/health")

    assert answer.status == 200
    assert api.backend.entries == {}


async def test_a_chunk_that_is_none_is_refused():
    head = (
        b"POST /api/v1/clusters/ HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: %b\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
        % basic("alice")["Authorization"].encode()
    )
    async with running_api() as api:
        status = parse_status(await send_raw(api, head))

    assert 400 <= status < 500


def without_long_waits(body: bytes) -> bytes:
    # A sync may be held for 45 s, and rightly.
    return body.replace(b'"wait_s"', b'"wait_x"')


def is_told_no(path: str, answer) -> bool:
    return path.endswith("/heartbeat") and answer.json["code"] == "not_supported"


def snapshot(api: Api) -> object:
    return {
        name: (entry.cluster, entry.generation, len(entry.reports))
        for name, entry in api.backend.entries.items()
    }
