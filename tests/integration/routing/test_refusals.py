"""What is refused at the public port, by whom, and in which words."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.builders import basic
from tests.support.eventually import eventually
from tests.support.listening import listening, say
from tests.support.memory_backend import MemoryBackend
from tests.support.traefik import address_of, traefik

pytestmark = pytest.mark.integration

POST = (
    "POST /api/v1/clusters/ HTTP/1.1\r\nHost: h\r\n"
    f"Authorization: {basic('alice')['Authorization']}\r\n"
)
GET = "GET /api/health HTTP/1.1\r\nHost: h\r\n"


class Port:
    """The public port, and the backend far behind it."""

    def __init__(
        self, address: tuple[str, int], backend: MemoryBackend, log: Path
    ) -> None:
        self.backend = backend
        self.log = log
        self._address = address

    async def say(self, request: str, body: bytes = b"") -> tuple[int, str, str]:
        """Send bytes; return status, request id and text of the answer."""
        status, headers, text = await say(self._address, request, body)
        return status, headers.get("x-request-id", ""), text


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    async with listening() as (number, backend):
        url = f"http://127.0.0.1:{number}"
        async with traefik(tmp_path, gateway_urls=(url,), log_level="DEBUG") as routes:
            log = tmp_path / "traefik" / "traefik.log"
            found = Port(address_of(routes), backend, log)
            await eventually(lambda: _answers(found))
            yield found


async def _answers(port: Port) -> bool:
    return (await port.say(f"{GET}\r\n"))[0] == 200


async def test_what_reaches_the_gateway_is_refused_as_json_with_a_request_id(port):
    """Packed bodies, whole or broken, and what its server takes for no HTTP."""
    many = "".join(f"X-{number}: a\r\n" for number in range(200))
    chunked = "Transfer-Encoding: chunked\r\n"
    for request, body, want in (
        (f"{POST}Content-Encoding: br\r\nContent-Length: 3\r\n\r\n", b"abc", 415),
        (f"{POST}Content-Encoding: zstd\r\nContent-Length: 3\r\n\r\n", b"abc", 415),
        (f"{POST}Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", b"abc", 415),
        (f"{POST}Content-Encoding: gzip\r\n{chunked}\r\n", b"1\r\na\r\n0\r\n\r\n", 415),
        (f"{POST}Content-Length: 3\r\n\r\n", b"abc", 422),
        (f"GET /api/{'x' * 9000} HTTP/1.1\r\nHost: h\r\n\r\n", b"", 400),
        (f"{GET}X-A: {'x' * 9000}\r\n\r\n", b"", 400),
        (f"{GET}{many}\r\n", b"", 400),
    ):
        status, request_id, text = await port.say(request, body)

        case = request[:60] + text[:200]
        assert status == want, case
        assert request_id, case
        assert json.loads(text)["request_id"] == request_id
    assert "start_cluster" not in port.backend.calls


@pytest.mark.parametrize(
    "body",
    [b"zz\r\n{}\r\n", b"2\r\n{}XX0\r\n\r\n", b"-1\r\n", b"0\r\nX: \0\r\n\r\n"],
    ids=["no size", "no end", "negative", "trailer"],
)
async def test_a_body_in_broken_chunks_is_refused_by_traefik_in_its_own_words(
    port, body
):
    """Its 500: it reads the chunks itself, and its log says that they are the cause.

    `docs/api.md` says so. If this fails, Traefik may have learned a better answer.
    """
    status, request_id, text = await port.say(
        f"{POST}Transfer-Encoding: chunked\r\n\r\n", body
    )

    assert (status, request_id, text) == (500, "", "Internal Server Error")
    lines = (line for line in port.log.read_text().splitlines() if "500 " in line)
    (error,) = {json.loads(line)["error"] for line in lines}
    assert "malformed" in error or "invalid byte in chunk length" in error
    assert "start_cluster" not in port.backend.calls
    assert await _answers(port)
