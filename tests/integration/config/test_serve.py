"""``daskfleet gateway`` as a process: starts, says what it does, ends."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

READY_S = 60
CONFIG = """
import asyncio

from dask_gateway_server.backends.base import Backend
from gateway.domain.errors import Unavailable


class Nothing(Backend):
    async def setup(self, app):
        self.log.info("backend of %s set up", self.gateway_url)
        {setup}

    async def cleanup(self):
        self.log.info("backend cleaned up")

    async def check_ready(self):
        pass

    async def check_token(self, name, token):
        return False

    async def list_clusters(self, username=None, statuses=None):
        await asyncio.sleep(1)
        return []


c.DaskGateway.backend_class = Nothing
c.DaskGateway.data_directory = {data!r}
c.DaskGateway.address = {address!r}
c.SimpleAuthenticator.password = "let-me-in"
c.Proxy.max_events = 3
"""


class Gateway:
    """A gateway process with its log."""

    def __init__(self, folder: Path, setup: str = "pass", address: str = "") -> None:
        self.folder = folder
        self.config = folder / "config.py"
        self.log_file = folder / "log"
        address = address or "127.0.0.1:0"
        data = str(folder / "data")
        self.config.write_text(CONFIG.format(setup=setup, data=data, address=address))
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "gateway", "-f", str(self.config)],
                stderr=log,
                stdout=log,
            )

    def entries(self) -> list[dict[str, object]]:
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def wait_started(self) -> str:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for entry in self.entries():
                if entry["event"] == "gateway started":
                    return str(entry["api"])
            self.wait_a_little()
        raise AssertionError(self.log_file.read_text())

    def wait_a_little(self) -> None:
        try:
            self.process.wait(0.1)
        except subprocess.TimeoutExpired:
            return

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(READY_S)


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Gateway]:
    gateway = Gateway(folder, **settings)
    try:
        yield gateway
    finally:
        if gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait(READY_S)


def get(url: str) -> tuple[int, object]:
    request = urllib.request.Request(
        url, headers={"Authorization": "Basic YWxpY2U6bGV0LW1lLWlu"}
    )
    with urllib.request.urlopen(request, timeout=READY_S) as response:
        return response.status, json.load(response)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(tmp_path, number) -> None:
    with running(tmp_path) as gateway:
        api = gateway.wait_started()

        assert get(f"{api}/api/health") == (200, {"status": "pass"})
        assert gateway.end(number) == 0
        events = [entry["event"] for entry in gateway.entries()]

    assert f"backend of {api} set up" in events
    assert events.index("gateway stopping") < events.index("backend cleaned up")
    assert events[-1] == "gateway stopped"


def test_open_requests_are_answered_before_it_ends(tmp_path) -> None:
    with running(tmp_path) as gateway:
        api = gateway.wait_started()
        script = textwrap.dedent(
            f"""
            import urllib.request
            request = urllib.request.Request(
                "{api}/api/v1/clusters/",
                headers={{"Authorization": "Basic YWxpY2U6bGV0LW1lLWlu"}},
            )
            print("asking", flush=True)
            print(urllib.request.urlopen(request, timeout=60).read().decode())
            """
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            client.stdout.readline()
            gateway.wait_a_little()
            gateway.wait_a_little()
            assert gateway.end() == 0
            answer, _ = client.communicate(timeout=READY_S)

    assert json.loads(answer) == {}


def test_warnings_of_the_configuration_are_logged_with_their_line(tmp_path) -> None:
    with running(tmp_path) as gateway:
        gateway.wait_started()
        gateway.end()
        found = [e for e in gateway.entries() if e["event"] == "configuration problem"]

    assert [(e["setting"], e["line"]) for e in found] == [
        ("Proxy.max_events", f"{tmp_path / 'config.py'}:31")
    ]


def test_the_data_directory_and_the_keys_are_the_owners_alone(tmp_path) -> None:
    with running(tmp_path) as gateway:
        gateway.wait_started()
        gateway.end()
    data = tmp_path / "data"

    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "signing-keys").stat().st_mode) == 0o600
    assert (data / "signing-keys").read_text().strip() not in (
        gateway.log_file.read_text()
    )


def test_a_port_that_is_taken_is_told(tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with running(tmp_path, address=address) as gateway:
            assert gateway.process.wait(READY_S) == os.EX_CONFIG

    assert (
        f"DaskGateway.address: cannot listen on {address}: Address already in use"
    ) in gateway.log_file.read_text()


def test_it_can_be_ended_while_it_starts(tmp_path) -> None:
    with running(tmp_path, setup="await asyncio.Event().wait()") as gateway:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and not any(
            str(entry["event"]).startswith("backend of") for entry in gateway.entries()
        ):
            gateway.wait_a_little()
        assert gateway.end() == 0

    assert "gateway told to stop before it had started" in [
        entry["event"] for entry in gateway.entries()
    ]


def test_what_may_be_there_later_ends_it_with_try_again(tmp_path) -> None:
    setup = "raise Unavailable('the database does not answer')"
    with running(tmp_path, setup=setup) as gateway:
        assert gateway.process.wait(READY_S) == os.EX_TEMPFAIL

    last = gateway.entries()[-1]
    assert last["event"] == "gateway cannot start"
    assert last["problem"] == "the database does not answer"


def test_a_full_disk_ends_it_with_try_again_and_without_a_stack(tmp_path) -> None:
    setup = "import errno, os; raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))"
    with running(tmp_path, setup=setup) as gateway:
        assert gateway.process.wait(READY_S) == os.EX_TEMPFAIL

    last = gateway.entries()[-1]
    assert last["event"] == "gateway cannot start"
    assert "No space left on device" in str(last["problem"])
    assert "Traceback" not in gateway.log_file.read_text()
