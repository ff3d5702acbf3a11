"""Jobs that run as the cluster's owner: `LocalBackend`'s way. Needs root."""

import asyncio
import inspect
import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from backends.database.launcher import JobRef, JobState, Role
from backends.local import shim
from backends.local.accounts import Account
from gateway.domain.errors import ConfigError
from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
    SYSTEM_PYTHON,
    a_job,
    end,
    find_marked,
    make_launcher,
    view,
    wait_until_ended,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

# No such accounts need to exist: the kernel knows numbers.
ALICE = Account("alice", uid=54321, gid=54322, groups=(54322, 54323), home="/homes/a")
BOB = Account("bob", uid=54331, gid=54332, groups=(54332,), home="/homes/b")
ACCOUNTS = {"alice": ALICE, "bob": BOB}


def sh(script: str) -> tuple[str, ...]:
    """Return a command that any account of any machine can run."""
    return ("/bin/sh", "-c", script)


@pytest.fixture
async def launcher(opened):
    launcher = make_launcher(opened, find_account=ACCOUNTS.__getitem__)
    await launcher.setup()
    yield launcher
    await end(launcher, *await launcher.find_jobs())
    await launcher.cleanup()
    assert find_marked(opened) == []


async def run_as(account: Account, *command: str) -> str:
    """Run ``command`` as another user; return what it says, errors included."""
    finished = await asyncio.to_thread(
        subprocess.run,
        command,
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return finished.stdout


async def test_a_job_has_all_of_its_owners_identity_and_nothing_of_roots(launcher):
    script = "id -u; id -g; id -G; pwd; echo $USER $HOME; echo out > /dev/stdout"

    await launcher.start(a_job(*sh(script), owner="alice"))

    ended = await wait_until_ended(launcher)
    assert ended.log_tail[:3] == ("54321", "54322", "54322 54323")
    assert ended.log_tail[3].endswith("/clusters/c1/scheduler/files/scratch")
    assert ended.log_tail[4:] == ("alice /homes/a", "out")


async def test_w32_nothing_is_given_away_but_the_jobs_own_files(launcher, opened):
    strangers = (Path("/"), Path("/tmp"), *opened.parents)  # noqa: S108 - only looked at
    before = {path: path.stat().st_uid for path in strangers}

    await launcher.start(a_job(*sh("sleep 99"), owner="alice"))

    assert {path: path.stat().st_uid for path in strangers} == before
    files = opened / "clusters/c1/scheduler/files"
    given = {files, *files.rglob("*")}
    assert len(given) == 6  # directory, scratch, token, key and two certificates
    for path in (opened, *opened.rglob("*")):
        status = path.lstat()
        want = (ALICE.uid, ALICE.gid) if path in given else (0, 0)
        assert (status.st_uid, status.st_gid) == want, path
        if path in given:
            assert not stat.S_IMODE(status.st_mode) & 0o077, path


async def test_the_owner_reads_its_files_and_others_read_none(launcher, opened):
    await launcher.start(a_job(*sh("sleep 99"), owner="alice"))
    files = opened / "clusters/c1/scheduler/files"

    assert len(await run_as(ALICE, "cat", str(files / "api-token"))) == 64
    for name in ("api-token", "dask.pem", "dask.crt"):
        assert "Permission denied" in await run_as(BOB, "cat", str(files / name))
    for path in (opened / "clusters", opened / "clusters/c1", files):
        assert "Permission denied" in await run_as(BOB, "ls", str(path))


async def test_the_owner_can_neither_forge_records_nor_end_the_supervisor(
    launcher, opened
):
    await launcher.start(a_job(*sh("sleep 99"), owner="alice"))
    directory = opened / "clusters/c1/scheduler"
    record = json.loads((directory / "started.json").read_text())

    for name in ("started.json", "exit.json", "output.log", "new"):
        said = await run_as(ALICE, *sh(f"echo x > {directory / name}"))
        assert "Permission denied" in said
    said = await run_as(ALICE, *sh(f"kill -9 {record['shim']['pid']}"))
    assert "not permitted" in said or "Operation" in said
    assert (await view(launcher)).state is JobState.RUNNING


async def test_stopping_reaches_processes_of_another_account(launcher, opened):
    script = "trap '' INT TERM; (setsid sleep 99 &); echo ready; sleep 99; sleep 99"
    await launcher.start(a_job(*sh(script), owner="alice"))

    async def read():
        lines = launcher.read_logs(SCHEDULER, tail=1, follow=False)
        return [one async for one in lines]

    await eventually(read)
    await end(launcher, SCHEDULER)

    assert (await view(launcher)).exit_code == -signal.SIGKILL
    assert find_marked(opened) == []


async def test_w32_links_of_a_user_lead_a_cleanup_nowhere(launcher, opened):
    victim = opened / "victim"
    victim.mkdir()
    (victim / "precious").touch()
    script = (
        f"ln -s {victim} link; ln -s {victim}/precious file; "
        "rm ../dask.pem; ln -s / ../dask.pem"
    )
    await launcher.start(a_job(*sh(script), owner="alice"))
    await wait_until_ended(launcher)
    await end(launcher, SCHEDULER)

    await launcher.forget("c1")

    assert (victim / "precious").exists()
    assert victim.stat().st_uid == 0
    assert not (opened / "clusters/c1").exists()


async def test_owners_do_not_share_a_cluster_but_may_have_their_own(launcher):
    other = JobRef("c2", Role.SCHEDULER, "scheduler")
    await launcher.start(a_job(*sh("id -u"), owner="alice"))
    await launcher.start(a_job(*sh("id -u"), owner="bob", ref=other))

    assert (await wait_until_ended(launcher)).log_tail == ("54321",)
    assert (await wait_until_ended(launcher, other)).log_tail == ("54331",)


async def test_w32_a_supervisor_that_cannot_drop_its_groups_runs_nothing(opened):
    """Without the right to change groups, the job would keep root's: refused."""
    opened.chmod(0o777)
    trace = opened / "trace"
    order = {
        "command": ["/bin/sh", "-c", f"echo ran > {trace}"],
        "environment": {},
        "working_directory": "/",
        "user": {"name": "alice", "uid": BOB.uid, "gid": BOB.gid, "groups": [54323]},
        "log_limit_bytes": 1000,
        "sigint_timeout_s": 1,
        "sigterm_timeout_s": 1,
    }
    code = inspect.getsource(shim)  # its file may be closed to others

    finished = await asyncio.to_thread(
        subprocess.run,
        [SYSTEM_PYTHON, "-I", "-S", "-c", code, str(opened), "0"],
        input=json.dumps(order).encode(),
        user=BOB.uid,
        group=BOB.gid,
        extra_groups=[],
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert finished.stdout, finished.stderr.decode()
    assert json.loads(finished.stdout)["failure"] == {"stage": "user", "errno": 1}
    exited = await eventually((opened / "exit.json").exists)
    assert exited
    assert not trace.exists()


async def test_set_up_refuses_a_directory_that_users_cannot_reach(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    launcher = make_launcher(closed, find_account=ACCOUNTS.__getitem__)

    with pytest.raises(ConfigError, match=r"chmod o\+x"):
        await launcher.setup()

    await launcher.cleanup()


async def test_set_up_refuses_to_change_users_without_being_root(opened, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    launcher = make_launcher(opened, find_account=ACCOUNTS.__getitem__)

    with pytest.raises(ConfigError, match="must run as root"):
        await launcher.setup()

    await launcher.cleanup()
