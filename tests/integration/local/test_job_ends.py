"""How a job ends, and what is known of it afterwards."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.database.launcher import JobState
from backends.local.stopping import Patience
from tests.support.eventually import eventually
from tests.support.jobs import (
    PATIENCE,
    SCHEDULER,
    WORKER,
    a_job,
    end,
    find_marked,
    make_launcher,
    python,
    run_script,
    view,
    wait_until_ended,
)

pytestmark = pytest.mark.integration

# A process that takes no hint, with a child, and one that left the session.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
os.write(1, b"ready %d\\n" % os.getpid())
time.sleep(600)
"""


def records(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "clusters/c1/scheduler/started.json").read_text())


def describe(pid: int) -> dict:
    """Return what a shim would write down of the process that has ``pid``."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return {"pid": pid, "start_time": int(stat.rpartition(")")[2].split()[19])}


@contextmanager
def a_stranger() -> Iterator[subprocess.Popen]:
    """Run a process that has nothing to do with us."""
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        yield stranger
    finally:
        stranger.kill()
        stranger.wait(30)


def read_command(pid: int) -> bytes:
    """Return a command line, empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


async def wait_for_lines(launcher, count: int) -> list[str]:
    async def read():
        lines = [
            one async for one in launcher.read_logs(SCHEDULER, tail=99, follow=False)
        ]
        return lines if len(lines) >= count else None

    return await eventually(read, within=60)


@pytest.mark.parametrize(
    ("code", "want_code", "want_message"),
    [
        ("", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import os; os.kill(os.getpid(), 11)", -11, ""),
        ("import os; os.kill(os.getpid(), 9)", -9, "may have run out of memory"),
        ("import os; os.kill(os.getpid(), 40)", -40, ""),
    ],
)
async def test_the_status_is_kept_and_doubtful_ends_are_explained(
    launcher, code, want_code, want_message
):
    await launcher.start(a_job(*python(code)))

    ended = await wait_until_ended(launcher)

    assert ended.exit_code == want_code
    assert want_message in ended.message
    assert bool(ended.message) == bool(want_message)
    assert ended.started_ms is not None
    assert abs(ended.started_ms / 1000 - time.time()) < 300


async def test_the_last_lines_of_both_streams_are_kept(launcher):
    code = (
        "import os\nfor i in range(30): os.write(1 + i % 2, b'line %d\\n' % i)\n"
        "os.write(2, b'no newline'); raise SystemExit(3)"
    )
    await launcher.start(a_job(*python(code)))

    ended = await wait_until_ended(launcher)

    assert ended.log_tail == (*(f"line {i}" for i in range(11, 30)), "no newline")


async def test_a_running_job_has_no_end(launcher):
    await launcher.start(a_job(*python("import time; time.sleep(99)")))

    seen = await view(launcher)

    assert (seen.state, seen.exit_code, seen.message) == (JobState.RUNNING, None, "")
    (pid,) = seen.pids
    assert b"time.sleep" in read_command(pid)


async def test_a_polite_job_is_asked_once_and_may_take_its_time(launcher):
    code = """
import signal, time
count = 0
def ask(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, ask)
print("ready", flush=True)
while not count:
    time.sleep(0.05)
time.sleep(0.8)
print("asked", count, flush=True)
raise SystemExit(0)
"""
    await launcher.start(a_job(*python(code)))
    await wait_for_lines(launcher, 1)

    await end(launcher, SCHEDULER)

    ended = await view(launcher)
    assert ended.log_tail == ("ready", "asked 1")
    assert (ended.exit_code, ended.message) == (0, "stopped on request")


# Says which of two processes got SIGINT, the first of which is the command.
FAMILY = """
import os, signal, time
who = "parent" if os.fork() else "child"
def tell(*_):
    os.write(1, f"{who} asked\\n".encode())
    if who == "parent":
        time.sleep(0.5)
        os._exit(0)
signal.signal(signal.SIGINT, tell)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.1)
"""


async def test_a_command_is_asked_alone_so_that_it_can_end_its_children_itself(
    launcher,
):
    """A nanny and its worker that are asked together wait 8 s for each other."""
    await launcher.start(a_job(*python(FAMILY)))
    await wait_for_lines(launcher, 2)

    await end(launcher, SCHEDULER)

    assert (await view(launcher)).log_tail == ("ready", "ready", "parent asked")


async def test_what_a_shell_waits_for_is_asked_in_the_end(tmp_path):
    patient = make_launcher(tmp_path, patience=Patience(sigint_s=60))
    await patient.setup()
    line = f"{shlex.join(python(FAMILY))}; exit $?"
    await patient.start(a_job("sh", "-c", line))
    await wait_for_lines(patient, 2)

    await end(patient, SCHEDULER)

    assert "parent asked" in (await view(patient)).log_tail
    await patient.cleanup()


async def test_a_job_that_takes_no_hint_is_killed_with_all_it_started(
    launcher, tmp_path
):
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)

    await end(launcher, SCHEDULER)

    assert find_marked(tmp_path) == []
    assert (await view(launcher)).exit_code == -signal.SIGKILL


async def test_one_request_is_enough_to_end_a_job_even_if_we_die_then(
    launcher, tmp_path
):
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)

    assert not await launcher.stop(SCHEDULER)

    await wait_until_ended(launcher)
    await eventually(lambda: not find_marked(tmp_path))


async def test_what_a_job_leaves_behind_is_taken_away_before_it_counts_as_ended(
    launcher, tmp_path
):
    """W15: the last process of a job is the end of it, not the first one's exit."""
    daemon = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    os.write(1, b'daemon\\n')\n"
        "    time.sleep(600)\n"
        "time.sleep(0.5)\n"
        "raise SystemExit(4)\n"
    )
    await launcher.start(a_job(*python(daemon)))

    ended = await wait_until_ended(launcher)

    assert find_marked(tmp_path) in ([], [records(tmp_path)["shim"]["pid"]])
    assert ended.exit_code == 4
    assert "daemon" in ended.log_tail


async def test_w15_the_job_goes_on_when_its_supervisor_is_killed(launcher, tmp_path):
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)

    os.kill(records(tmp_path)["shim"]["pid"], signal.SIGKILL)

    await eventually(lambda: not read_command(records(tmp_path)["shim"]["pid"]))
    assert (await view(launcher)).state is JobState.RUNNING
    await launcher.start(a_job(*python(STUBBORN)))  # starts nothing
    assert len(find_marked(tmp_path)) == 3
    await end(launcher, SCHEDULER)
    assert find_marked(tmp_path) == []
    ended = await view(launcher)
    assert (ended.state, ended.exit_code) == (JobState.ENDED, None)
    assert ended.message == "stopped on request"


async def test_an_end_that_nobody_saw_has_no_status_and_says_why(launcher, tmp_path):
    await launcher.start(a_job(*python("import time; time.sleep(600)")))

    for part in ("shim", "child"):
        os.kill(records(tmp_path)[part]["pid"], signal.SIGKILL)

    ended = await wait_until_ended(launcher)
    assert ended.exit_code is None
    assert ended.message == "its supervising process was killed too"


async def test_a_supervisor_that_hangs_is_killed_with_its_job(launcher, tmp_path):
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)
    os.kill(records(tmp_path)["shim"]["pid"], signal.SIGSTOP)

    began = time.monotonic()
    await end(launcher, SCHEDULER)

    assert time.monotonic() - began >= PATIENCE.total_s
    assert find_marked(tmp_path) == []


async def test_w15_a_pid_that_was_given_away_is_not_taken_for_the_job(
    launcher, tmp_path
):
    """Its new owner is neither seen as the job nor hurt."""
    await launcher.start(a_job(*python("import time; time.sleep(600)")))
    path = tmp_path / "clusters/c1/scheduler/started.json"
    record = records(tmp_path)
    for part in ("shim", "child"):
        os.kill(record[part]["pid"], signal.SIGKILL)
    # The kernel tells start times apart by its tick, in which no pid comes round.
    await asyncio.sleep(0.05)
    with a_stranger() as stranger:
        for part in ("shim", "child"):
            record[part]["pid"] = stranger.pid
        path.write_text(json.dumps(record))

        await wait_until_ended(launcher)  # a killed process takes its time to go
        await end(launcher, SCHEDULER)

        assert stranger.poll() is None


async def test_after_a_restart_of_the_machine_every_job_has_ended(launcher, tmp_path):
    """The processes of the record are others now: here, one that happens to fit."""
    with a_stranger() as stranger:
        await launcher.start(a_job(*python("raise SystemExit(0)")))
        await wait_until_ended(launcher)
        await end(launcher, SCHEDULER)  # its supervisor is gone as well
        directory = tmp_path / "clusters/c1/scheduler"
        (directory / "exit.json").unlink()
        record = records(tmp_path)
        record["child"] = describe(stranger.pid)
        (directory / "started.json").write_text(json.dumps(record))
        assert (await view(launcher)).state is JobState.RUNNING

        record["boot_id"] = "of an earlier day"
        (directory / "started.json").write_text(json.dumps(record))

        ended = await view(launcher)
        assert ended.state is JobState.ENDED
        assert "machine was restarted" in ended.message
        assert await launcher.stop(SCHEDULER)
        assert stranger.poll() is None


async def test_a_full_disk_costs_lines_but_neither_the_job_nor_its_status(
    launcher, tmp_path
):
    """No file may pass 4 KiB: the system refuses just as a full disk does."""
    code = "for i in range(20000): print('x' * 80)\nraise SystemExit(3)"
    script = """
        import asyncio, resource, sys
        from pathlib import Path
        from tests.support.jobs import a_job, make_launcher

        directory, *command = sys.argv[1:]
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        asyncio.run(make_launcher(Path(directory)).start(a_job(*command)))
    """

    await run_script(script, tmp_path, *python(code))

    ended = await wait_until_ended(launcher)
    assert ended.exit_code == 3
    assert "x" * 80 in ended.log_tail


async def test_what_is_left_when_command_and_supervisor_were_killed_is_found(
    launcher, tmp_path
):
    """W15: it left the session and lost its parents; its environment tells."""
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)

    for part in ("shim", "child"):
        os.kill(records(tmp_path)[part]["pid"], signal.SIGKILL)

    await wait_until_ended(launcher)
    assert find_marked(tmp_path) == []


async def test_a_job_whose_directory_was_taken_away_is_ended_all_the_same(
    launcher, tmp_path
):
    await launcher.start(a_job(*python(STUBBORN)))
    await wait_for_lines(launcher, 3)
    shutil.rmtree(tmp_path / "clusters")
    assert (await view(launcher)).state is JobState.ABSENT

    await end(launcher, SCHEDULER)

    await eventually(lambda: find_marked(tmp_path) == [])
    assert (await view(launcher)).state is JobState.ENDED


async def test_jobs_are_started_although_the_clusters_directory_was_taken_away(
    launcher, tmp_path
):
    (tmp_path / "clusters").rmdir()

    await launcher.start(a_job(*python("print('here')")))

    assert (await wait_until_ended(launcher)).log_tail == ("here",)
    assert (tmp_path / "clusters").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"child": 3, "shim": {}}'])
async def test_a_job_with_a_damaged_record_is_ended_and_hides_no_other(
    launcher, tmp_path, text
):
    sleep = python("import time; time.sleep(600)")
    await launcher.start(a_job(*sleep))
    await launcher.start(a_job(*sleep, ref=WORKER))

    (tmp_path / "clusters/c1/scheduler/started.json").write_text(text)

    await wait_until_ended(launcher)
    assert (await view(launcher, WORKER)).state is JobState.RUNNING
    await end(launcher, SCHEDULER, WORKER)
    assert find_marked(tmp_path) == []


async def test_damaged_records_of_a_request_and_of_an_end_hinder_no_stop(
    launcher, tmp_path
):
    directory = tmp_path / "clusters/c1/scheduler"
    await launcher.start(a_job(*python("import time; time.sleep(600)")))
    (directory / "stop.json").write_text("{")

    await end(launcher, SCHEDULER)
    (directory / "exit.json").write_text("{")

    seen = await view(launcher)
    assert (seen.state, seen.exit_code) == (JobState.ENDED, None)
    assert "damaged" in seen.message
