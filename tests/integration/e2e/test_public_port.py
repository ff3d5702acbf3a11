"""Other shapes of the public port: HTTPS, a prefix, a port for Dask alone."""

import asyncio
import base64
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.pki import ServingFiles, write_serving_files
from tests.support.cluster_processes import find_schedulers
from tests.support.eventually import eventually
from tests.support.lives import look_up, status_of
from tests.support.stack import PASSWORD, Stack, free_port, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PREFIX = "/services/dask-gateway"

# A person's script, start to end; `pow` and a dashboard's link are its results.
SCRIPT = """
import sys
from dask_gateway import BasicAuth, Gateway
address, password, proxy_address = sys.argv[1:]
gateway = Gateway(
    address, proxy_address or None, auth=BasicAuth("alice", password)
)
cluster = gateway.new_cluster()
print("NAME", cluster.name, flush=True)
cluster.scale(1)
client = cluster.get_client()
print("GOT", client.submit(pow, 6, 3).result(timeout=120))
print("LINK", cluster.dashboard_link)
client.close()
cluster.adapt(minimum=0, maximum=1)
input()
cluster.shutdown()
gateway.close()
"""


class Site:
    """A gateway on HTTPS, and the files of its certificate."""

    def __init__(self, files: ServingFiles, stack: Stack) -> None:
        self.files = files
        self.stack = stack


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("tls")
    files = write_serving_files(folder, ["127.0.0.1", "localhost"])
    extra = f"""
c.Proxy.tls_cert = {str(files.certificate)!r}
c.Proxy.tls_key = {str(files.key)!r}
"""
    with running_stack(folder / "stack", extra, authority=files.authority) as stack:
        yield Site(files, stack)


class Script:
    """A person's program, in a process of its own.

    Parameters
    ----------
    authority
        Whom it trusts; what the machine trusts if ``None``.
    """

    def __init__(
        self, stack: Stack, *, authority: Path | None = None, proxy_address: str = ""
    ) -> None:
        self._arguments = (stack.address, PASSWORD, proxy_address)
        self._environ = {k: v for k, v in os.environ.items() if k != "SSL_CERT_FILE"}
        if authority is not None:
            self._environ["SSL_CERT_FILE"] = str(authority)

    async def start(self) -> dict[str, str]:
        """Run it up to where it waits; return what it printed, by first word."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SCRIPT, *self._arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environ,
            cwd=Path(__file__).parents[3],
        )
        output = self._process.stdout
        assert output is not None
        said, lines = {}, []
        while "LINK" not in said:
            line = (await asyncio.wait_for(output.readline(), 120)).decode()
            if not line:
                break
            lines.append(line)
            word, _, rest = line.strip().partition(" ")
            said[word] = rest
        return {**said, "OUTPUT": "".join(lines)}

    async def end(self) -> int:
        """Let it stop its cluster; return its exit status."""
        await asyncio.wait_for(self._process.communicate(b"\n"), 120)
        assert self._process.returncode is not None
        return self._process.returncode


async def test_the_stock_client_works_over_https_with_a_private_authority(site):
    """API, dashboard and Dask's own TLS by SNI, all on one port."""
    stack = site.stack
    script = Script(stack, authority=site.files.authority)
    said = await script.start()

    assert said.get("GOT") == "216", said["OUTPUT"]
    assert said["LINK"].startswith(f"https://127.0.0.1:{stack.port}/clusters/")
    (scheduler,) = find_schedulers(stack, said["NAME"])
    environ = psutil.Process(scheduler).environ()
    assert environ["DASK_GATEWAY_API_URL"] == f"{stack.address}/api"
    assert environ["DASK_GATEWAY_API_CA_FILE"]
    # The plugin has heard of `adapt`, and told its target, over HTTPS.
    await eventually(lambda: _live_workers(stack, said["NAME"]) == 0, within=90)
    assert await script.end() == 0
    await eventually(lambda: status_of(stack, said["NAME"]) == "STOPPED", within=60)
    assert stack.jobs() == []


async def test_whoever_does_not_know_the_authority_does_not_talk_to_it(site):
    script = Script(site.stack)
    said = await script.start()

    assert "CERTIFICATE_VERIFY_FAILED" in said["OUTPUT"]
    assert await script.end() != 0
    assert site.stack.get("/api/v1/clusters/") == {}


def test_a_session_over_https_is_never_sent_over_http(site):
    request = urllib.request.Request(
        f"{site.stack.address}/api/v1/clusters/",
        headers=_basic("alice"),
    )
    with urllib.request.urlopen(request, context=site.stack.trust) as answer:
        (cookie,) = answer.headers.get_all("Set-Cookie")

    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"secure", "httponly", "samesite=lax"} <= attributes


@pytest.mark.parametrize("path", ["/api/v1/clusters/", "/clusters/c1/status", "/"])
def test_plain_http_on_the_https_port_is_only_sent_on(site, path):
    plain = http.client.HTTPConnection("127.0.0.1", site.stack.port, timeout=30)
    plain.request("GET", path, headers=_basic("alice"))
    answer = plain.getresponse()
    body = answer.read()
    plain.close()

    assert answer.status in {301, 302, 307, 308}
    assert answer.headers["Location"] == f"{site.stack.address}{path}"
    assert answer.headers["Set-Cookie"] is None
    assert b"cluster" not in body.replace(b"/clusters/", b"")


async def test_below_a_prefix_and_with_a_port_for_dask_alone(tmp_path):
    dask_port = free_port()
    extra = f"""
c.Proxy.prefix = {PREFIX!r}
c.Proxy.tcp_address = "127.0.0.1:{dask_port}"
"""
    with running_stack(tmp_path, extra, prefix=PREFIX) as stack:
        script = Script(stack, proxy_address=f"gateway://127.0.0.1:{dask_port}")
        said = await script.start()
        assert said.get("GOT") == "216", said["OUTPUT"]
        name = said["NAME"]
        assert said["LINK"].startswith(f"{stack.address}/clusters/{name}/")
        (scheduler,) = find_schedulers(stack, name)
        environ = psutil.Process(scheduler).environ()
        assert environ["DASK_GATEWAY_API_URL"] == f"{stack.address}/api"
        assert "DASK_GATEWAY_API_CA_FILE" not in environ

        answer = _get(stack.port, _path(said["LINK"]))
        assert answer.headers["Location"] == f"{PREFIX}/clusters/{name}/status"
        cookie = answer.headers["Set-Cookie"]
        assert f"Path={PREFIX}/clusters/{name}/" in cookie
        held = {"Cookie": cookie.partition(";")[0]}
        for path in (f"{PREFIX}/clusters/{name}/status", answer.headers["Location"]):
            assert _get(stack.port, path, held).status == 200
        # Nothing is served beside the prefix, nor HTTP on the port for Dask.
        for path in ("/api/health", f"/clusters/{name}/status"):
            assert _get(stack.port, path, held).status == 404
        with pytest.raises((http.client.HTTPException, OSError)):
            _get(dask_port, f"{PREFIX}/api/health")
        # Nor Dask's traffic on the port for HTTP.
        record = look_up(stack, name)
        await asyncio.to_thread(_shake_hands, dask_port, record)
        with pytest.raises(OSError):  # noqa: PT011 - refused, reset or of another CA
            await asyncio.to_thread(_shake_hands, stack.port, record)
        assert await script.end() == 0
        await eventually(lambda: not stack.jobs(), within=60)


def _basic(user: str) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def _get(
    port: int, path: str, headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    return answer


def _shake_hands(port: int, record: dict[str, Any]) -> None:
    """Prove by TLS that a cluster's scheduler is behind ``port``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=record["tls_cert"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=f"daskgateway-{record['name']}"),
    ):
        pass


def _path(url: str) -> str:
    return re.sub(r"^https?://[^/]+", "", url)


def _live_workers(stack: Stack, name: str) -> int:
    workers = look_up(stack, name, "/workers")["workers"]
    return sum(w["status"] in {"Starting", "Running", "Draining"} for w in workers)
