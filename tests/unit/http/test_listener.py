"""What no application sees: answers of the connection itself."""

import asyncio
import gzip
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from tests.support.builders import basic
from tests.support.eventually import eventually
from tests.support.listening import listening, say
from tests.support.memory_backend import MemoryBackend

PATH = "/api/v1/clusters/"
LOGIN = basic("alice")["Authorization"]
POST = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nAuthorization: {LOGIN}\r\n"


class Site:
    """A listener, what is behind it, and bytes to it."""

    def __init__(self, port: int, backend: MemoryBackend) -> None:
        self.backend = backend
        self.port = port

    async def say(self, request: str, body: bytes = b"") -> tuple[int, dict, dict]:
        """Send bytes; return status, headers and JSON of the answer."""
        status, headers, text = await say(("127.0.0.1", self.port), request, body)
        return status, headers, json.loads(text)


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    async with listening() as (port, backend):
        yield Site(port, backend)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"{}")),
        ("deflate", zlib.compress(b"{}")),
        ("br", b"\x0b\x02\x80"),
        ("zstd", b"nothing"),
        ("klingon", b"{}"),
        ("gzip, gzip", b"{}"),
        ("GZIP", b""),
    ],
)
async def test_a_compressed_body_is_refused_whether_or_not_it_is_whole(encoding, body):
    head = f"{POST}Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with open_site() as site:
        status, headers, answer = await site.say(head, body)

        assert (status, answer["code"]) == (415, "unsupported_encoding")
        assert headers["accept-encoding"] == "identity"
        assert headers["x-request-id"] == answer["request_id"]
        assert "start_cluster" not in site.backend.calls


@pytest.mark.parametrize("encoding", ["identity", " Identity "])
async def test_a_body_that_says_that_it_is_plain_is_taken(encoding):
    head = f"{POST}Content-Encoding: {encoding}\r\nContent-Length: 2\r\n\r\n"
    async with open_site() as site:
        status, _, answer = await site.say(head, b"{}")

    assert status == 201
    assert answer["name"]


@pytest.mark.parametrize(
    ("request_text", "want"),
    [
        ("GARBAGE\r\n\r\n", "not valid HTTP"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", "not valid HTTP"),
        ("GET / HTTP/9.9\r\n\r\n", "not valid HTTP"),
        ("GET / HTTP/1.1\r\nHost: h\r\nbroken header\r\n\r\n", "not valid HTTP"),
        (f"{POST}Content-Length: -3\r\n\r\n", "not valid HTTP"),
        (f"{POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "valid"),
        (f"GET /{'x' * 9000} HTTP/1.1\r\nHost: h\r\n\r\n", "too long"),
        (f"GET / HTTP/1.1\r\nAuthorization: Basic {'x' * 9000}\r\n\r\n", "too long"),
    ],
    ids=["text", "tls", "version", "header", "length", "two lengths", "path", "login"],
)
async def test_what_is_no_request_is_refused_as_json_and_logged_in_one_line(
    request_text, want, caplog
):
    async with open_site() as site:
        with capture_logs() as logs:
            status, headers, answer = await site.say(request_text)

    assert (status, answer["code"]) == (400, "bad_request")
    assert want in answer["error"]
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])
    assert answer["request_id"] == headers["x-request-id"]
    assert headers["cache-control"] == "no-store"
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("request not understood", "info")
    assert line["request_id"] == answer["request_id"]
    assert "xxx" not in str(logs) + str(answer)
    assert caplog.records == []  # nor does aiohttp write one


@pytest.mark.parametrize("chunks", [b"zz\r\n{}\r\n", b"2\r\n{}XX0\r\n\r\n", b"-1\r\n"])
@pytest.mark.parametrize(
    "head",
    [POST, f"POST {PATH} HTTP/1.1\r\nHost: h\r\n", "PUT /x HTTP/1.1\r\nHost: h\r\n"],
    ids=["read", "no login", "no route"],
)
async def test_a_body_in_broken_chunks_is_refused(head, chunks, caplog):
    """Also one that nobody reads: what is left of it is read and dropped."""
    async with open_site() as site:
        with capture_logs() as logs:
            request = f"{head}Transfer-Encoding: chunked\r\n\r\n"
            status, headers, answer = await site.say(request, chunks)

        assert status in {400, 401, 404, 422}
        assert headers["x-request-id"] == answer["request_id"]
        assert "start_cluster" not in site.backend.calls
    assert not any(line["log_level"] == "error" for line in logs)
    assert caplog.records == []


async def test_a_bug_outside_the_application_is_a_500_with_its_stack_in_the_log(
    monkeypatch,
):
    async with open_site() as site:
        with capture_logs() as logs:
            monkeypatch.setattr(
                "gateway.http.middlewares._find_request_id", lambda _: 1 / 0
            )
            status, headers, answer = await site.say(
                "GET /api/health HTTP/1.1\r\nHost: h\r\n\r\n"
            )

    assert (status, answer["code"]) == (500, "internal_error")
    assert headers["x-request-id"] == answer["request_id"]
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("request failed", "error")
    assert isinstance(line["exc_info"], ZeroDivisionError)


async def test_a_connection_that_breaks_off_is_no_error():
    async with open_site() as site:
        with capture_logs() as logs:
            _, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(f"{POST}Content-Length: 9\r\n\r\n{{".encode())
            await writer.drain()
            writer.transport.abort()
            status, *_ = await site.say("GET /api/health HTTP/1.1\r\nHost: h\r\n\r\n")

            assert status == 200
            await eventually(lambda: len(logs) >= 1)
    assert not any(line["log_level"] == "error" for line in logs)
