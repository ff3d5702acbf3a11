"""Each guard of ``tests/conftest.py`` has been seen to catch what it is for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Planted(NamedTuple):
    """A test that must not pass, and a part of what pytest then says."""

    id: str
    source: str
    want: str


PLANTED = (
    Planted(
        "skip-in-ci",
        """
        import pytest
        def test_it():
            pytest.skip("no such program")
        """,
        "skipped where nothing may be missing (CI=true): no such program",
    ),
    Planted(
        "module-skip-in-ci",
        """
        import pytest
        pytest.importorskip("no_such_module_of_ours")
        """,
        "skipped where nothing may be missing (CI=true): could not import",
    ),
    Planted(
        "blocking-call-on-the-loop",
        """
        import pathlib
        from gateway.domain.scaling import derive_max_workers
        class Blocks:
            def __mul__(self, other):
                pathlib.Path("/").stat()
        async def test_it():
            derive_max_workers(memory=(1, 0, Blocks()))
        """,
        "Blocking call to os.stat",
    ),
    Planted(
        "stray-task",
        """
        import asyncio
        async def test_it():
            loop = asyncio.get_running_loop()
            loop.create_task(asyncio.Event().wait(), name="x9")
        """,
        "left running: tasks: <Task pending name='x9'",
    ),
    Planted(
        "stray-thread",
        """
        import threading
        def test_it():
            threading.Timer(5, print).start()
        """,
        "left running: threads: <Timer",
    ),
    Planted(
        "stray-process",
        """
        import subprocess
        KEPT = []
        def test_it():
            KEPT.append(subprocess.Popen(["sleep", "5.25"]))
        """,
        "left running: processes: sleep 5.25",
    ),
    Planted(
        "process-that-outlives-the-suite",
        """
        import subprocess
        def test_it(tmp_path):
            subprocess.run(["sh", "-c", "sleep 41 >&- 2>&- &"], cwd=tmp_path)
        """,
        "still running: sleep 41",
    ),
    Planted(
        "call-to-the-network",
        """
        import socket
        def test_it():
            socket.create_connection(("192.0.2.1", 80), timeout=1)
        """,
        'with host "192.0.2.1"',
    ),
    Planted(
        "token-in-the-output",
        """
        from gateway import credentials
        def test_it():
            print("token=" + credentials.make_token())
        """,
        "captured output shows a cluster's token",
    ),
    Planted(
        "private-key-in-a-log-file",
        """
        def test_it(tmp_path):
            header = "-----BEGIN PRIVATE" + " KEY-----"
            (tmp_path / "gateway.log").write_text(header)
        """,
        "gateway.log: a private key",
    ),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest shows of all planted files, run once: each start takes seconds."""
    folder = tmp_path_factory.mktemp("planted")
    for case in PLANTED:
        file = folder / f"test_{case.id.replace('-', '_')}.py"
        file.write_text(dedent(case.source))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, folder]
    run = subprocess.run(
        [*command, f"--basetemp={folder / 'inner'}"],
        cwd=ROOT,
        env=os.environ | {"CI": "true", "DASKFLEET_TEST_PATIENCE_S": "0.5"},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(folder)  # or the outer session's end finds what was planted
    assert run.returncode == 1, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: case.id)
def test_what_a_guard_is_for_fails_the_run(case: Planted, shown: str) -> None:
    assert case.want in shown, shown
