"""Who holds which secret, and who can read it."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backends.database.launcher import StartFailed
from backends.local.launcher import INHERITED
from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
    SYSTEM_PYTHON,
    WORKER,
    a_job,
    credentials_of,
    end,
    make_launcher,
    python,
    view,
    wait_until_ended,
)

pytestmark = pytest.mark.integration

SLEEP = python("import time; time.sleep(99)")


def read(path: str) -> str:
    return Path(path).read_text()


async def read_environment(launcher, ref) -> dict[str, str]:
    (pid,) = (await view(launcher, ref)).pids
    items = read(f"/proc/{pid}/environ").split("\0")
    return dict(item.split("=", 1) for item in items if item)


async def test_w35_a_worker_has_the_api_token_neither_in_its_environment_nor_in_a_file(
    launcher, tmp_path
):
    await launcher.start(a_job(*SLEEP, ref=WORKER))

    environment = await read_environment(launcher, WORKER)
    token = credentials_of("c1").token
    assert "DASK_GATEWAY_API_TOKEN" not in environment
    assert token not in str(environment)
    for path in (tmp_path / "clusters").rglob("*"):
        assert not path.is_file() or token not in path.read_text()


async def test_w35_the_scheduler_has_its_token_in_a_file_that_is_the_token_alone(
    launcher,
):
    await launcher.start(a_job(*SLEEP))

    environment = await read_environment(launcher, SCHEDULER)
    token = credentials_of("c1").token
    assert token not in str(environment)
    assert read(environment["DASK_GATEWAY_API_TOKEN"]) == token


@pytest.mark.parametrize(
    ("ref", "role"), [(SCHEDULER, "scheduler"), (WORKER, "worker")]
)
async def test_a_job_holds_its_own_leaf_and_no_other_key(launcher, tmp_path, ref, role):
    await launcher.start(a_job(*SLEEP, ref=ref))

    environment = await read_environment(launcher, ref)
    tls = f"DASK_DISTRIBUTED__COMM__TLS__{role.upper()}__"
    credentials = credentials_of("c1")
    own = getattr(credentials, role)
    for variable, want in (
        (f"{tls}CERT", own.certificate),
        (f"{tls}KEY", own.key),
        ("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", credentials.ca_certificate),
    ):
        assert read(environment[variable]) == want
    written = "".join(
        path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    )
    assert written.count("PRIVATE KEY-----") == 2
    assert environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"


async def test_the_configuration_reaches_the_job_but_not_its_wiring(launcher, tmp_path):
    """Dask knows many spellings of one setting, and the last one wins."""
    hostile = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "False",
        "DASK_distributed__comm__require-encryption": "False",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": "/mine/ca.crt",
        "DASK_GATEWAY_API_URL": "http://elsewhere/api",
        "DASK_GATEWAY_API_TOKEN": "mine",
        "DASK_INTERNAL_INHERIT_CONFIG": "e30=",
        "DASKFLEET_JOB": "another",
    }
    code = (
        "import dask.config as c; print(c.get('distributed.comm.require-encryption'))"
    )
    await launcher.start(
        a_job(
            sys.executable,
            "-c",
            code,
            environment={**hostile, "MINE": "yes", "LANG": "C"},
        )
    )

    environment = await read_environment(launcher, SCHEDULER)
    assert environment["MINE"] == "yes"
    assert environment["LANG"] == "C"
    assert environment["DASK_GATEWAY_API_URL"] == "http://127.0.0.1:1/api"
    assert environment["DASK_GATEWAY_CLUSTER_NAME"] == "c1"
    assert str(tmp_path) in environment["DASKFLEET_JOB"]
    assert "DASK_INTERNAL_INHERIT_CONFIG" not in environment
    assert "DASK_distributed__comm__require-encryption" not in environment

    async def read_lines():
        return [
            one async for one in launcher.read_logs(SCHEDULER, tail=9, follow=False)
        ]

    assert await eventually(read_lines, within=60) == ["True"]


async def test_a_job_gets_only_the_named_part_of_our_environment(launcher, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "the gateway's own secret")
    monkeypatch.setenv("VIRTUAL_ENV", "/some/venv")

    await launcher.start(a_job(*SLEEP, owner="alice"))

    environment = await read_environment(launcher, SCHEDULER)
    ours = {name for name in environment if not name.startswith("DASK")}
    assert ours <= {*INHERITED, "USER"}
    assert environment["VIRTUAL_ENV"] == "/some/venv"
    assert environment["USER"] == "alice"


async def test_directories_are_closed_and_files_are_private(launcher, tmp_path):
    old = os.umask(0)
    try:
        await launcher.start(a_job(*SLEEP))
        await launcher.start(a_job(*SLEEP, ref=WORKER))
    finally:
        os.umask(old)

    for path in [tmp_path / "clusters", *(tmp_path / "clusters").rglob("*")]:
        want = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == want, path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_of_the_machine_can_read_nothing(opened):
    """The test's own folder is open, so that only ours can refuse."""
    launcher = make_launcher(opened)
    await launcher.setup()
    await launcher.start(a_job(*SLEEP))

    look = (
        "import os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try: open(path).read()\n"
        "    except PermissionError: print('refused')\n"
        "    else: print('read', path)\n"
    )
    files = [str(p) for p in (opened / "clusters").rglob("*") if p.is_file()]
    seen = await asyncio.to_thread(
        subprocess.run,
        [SYSTEM_PYTHON, "-I", "-c", look, *files],
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    await end(launcher, SCHEDULER)
    await launcher.cleanup()
    assert len(files) >= 6
    assert seen.stdout.split() == ["refused"] * len(files)


async def test_keys_token_and_scratch_go_with_the_job_but_its_log_stays(
    launcher, tmp_path
):
    """They serve nobody any more, and spilled data may be large."""
    code = "import os; os.mkdir('spilled'); open('spilled/data', 'w'); print('done')"
    await launcher.start(a_job(*python(code)))

    ended = await wait_until_ended(launcher)
    await end(launcher, SCHEDULER)

    directory = tmp_path / "clusters/c1/scheduler"
    assert not (directory / "files").exists()
    assert ended.log_tail == ("done",)
    assert (await view(launcher)).log_tail == ("done",)


async def test_keys_go_with_a_job_that_could_not_be_run(launcher, tmp_path):
    with pytest.raises(StartFailed):
        await launcher.start(a_job("no-such-dask"))

    directory = tmp_path / "clusters/c1/scheduler"
    await eventually(lambda: not (directory / "files").exists())
    assert (directory / "exit.json").exists()


async def test_keys_go_with_a_job_whose_supervisor_was_killed(launcher, tmp_path):
    await launcher.start(a_job(*SLEEP))
    directory = tmp_path / "clusters/c1/scheduler"
    record = json.loads((directory / "started.json").read_text())

    for part in ("shim", "child"):
        os.kill(record[part]["pid"], signal.SIGKILL)
    await wait_until_ended(launcher)

    assert not (directory / "files").exists()
