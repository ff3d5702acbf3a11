"""``daskfleet demo`` as a newcomer meets it."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.eventually import eventually
from tests.support.sources import ROOT
from tests.support.stack import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@contextmanager
def demo(
    folder: Path, *arguments: str, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """Start a demo whose files are all below ``folder``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "demo", f"--port={free_port()}", *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)} | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def left_behind(folder: Path) -> list[str]:
    """Return command lines of processes that name ``folder``."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def is_ready(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/api/ready", timeout=30) as answer:
        return answer.status == 200


async def test_it_shows_a_result_and_leaves_nothing_behind(tmp_path):
    with demo(tmp_path) as process:
        shown, _ = process.communicate(timeout=240)

    assert process.returncode == 0, shown
    assert "the sum of the squares of 0..999 is 332833500" in shown
    assert re.search(
        r"^Dashboard: http://127\.0\.0\.1:\d+/clusters/", shown, re.MULTILINE
    )
    assert "make demo KEEP=1" in shown
    await eventually(lambda: left_behind(tmp_path) == [], within=60)
    assert list(tmp_path.glob("daskfleet-demo-*")) == []


async def test_it_stays_up_until_it_is_interrupted(tmp_path):
    with demo(tmp_path, "--keep") as process:
        shown = ""
        while "openapi.json" not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        address = re.search(r"http://127\.0\.0\.1:\d+", shown).group()
        assert is_ready(address)

        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)

    assert process.returncode == 0, shown + rest
    assert "Everything of the demo was stopped and removed." in rest
    await eventually(lambda: left_behind(tmp_path) == [], within=60)


def test_a_step_that_fails_names_itself_the_cause_and_the_remedy(tmp_path):
    with demo(tmp_path, DASK_GATEWAY_ENCRYPT_KEYS="no-key") as process:
        shown, _ = process.communicate(timeout=120)

    assert process.returncode == 1
    assert "Step 2 failed: Start the gateway and its proxy" in shown
    assert "db_encrypt_keys" in shown
    assert "What to do: " in shown
    assert "Traceback" not in shown
