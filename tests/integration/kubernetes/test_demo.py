"""``make demo-kubernetes`` as a newcomer meets it, in a world within the tests' own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.demo import PORT_VARIABLE
from tests.support.sources import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]


def run_demo(**changes: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    mark = ("DASKFLEET_WORLD", PORT_VARIABLE)
    environment = {k: v for k, v in os.environ.items() if k not in mark}
    return subprocess.run(
        [sys.executable, "-m", "tests.harness.demo"],
        cwd=ROOT,
        env=environment | changes,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=450,
        check=False,
    )


def test_it_shows_a_result_and_what_kubernetes_has_of_it(world: Path) -> None:
    done = run_demo()

    shown = done.stdout
    assert done.returncode == 0, shown
    assert world.exists()
    assert "the sum of the squares of 0..999 is 332833500" in shown
    assert re.search(
        r"^Dashboard: http://127\.0\.0\.1:\d+/clusters/", shown, re.MULTILINE
    )
    assert re.search(r"^c\w+ +Running +2 +2 +demo +team-a", shown, re.MULTILINE)
    assert "make demo-kubernetes KEEP=1" in shown
    assert "Nothing of the demo is left" in shown


def test_a_machine_that_lacks_something_is_told_what(tmp_path: Path) -> None:
    done = run_demo(XDG_CACHE_HOME=str(tmp_path))

    assert done.returncode == 1
    assert "Step 1 failed: Look for what the demo needs" in done.stdout
    assert "What to do: " in done.stdout
    assert "Traceback" not in done.stdout
