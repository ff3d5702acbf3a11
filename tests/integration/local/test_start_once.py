"""A job is started once, whatever happens to those who start it."""

import asyncio

import pytest

from backends.database.launcher import JobState
from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
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


def a_leaving_trace(tmp_path):
    """Return a job that adds a line to ``tmp_path/traces`` each time it runs."""
    traces = tmp_path / "traces"
    traces.touch()
    code = f"import time; print('ran', file=open({str(traces)!r}, 'a')); time.sleep(99)"
    return a_job(*python(code)), traces


async def test_starting_twice_runs_one_process(launcher, tmp_path):
    job, traces = a_leaving_trace(tmp_path)

    await launcher.start(job)
    first = (await view(launcher)).pids
    await launcher.start(job)

    await eventually(traces.read_text)
    assert traces.read_text() == "ran\n"
    assert (await view(launcher)).pids == first


async def test_w15_two_replicas_that_start_at_once_run_one_process(launcher, tmp_path):
    job, traces = a_leaving_trace(tmp_path)
    replica = make_launcher(tmp_path)

    await asyncio.gather(
        *(one.start(job) for one in (launcher, replica) for _ in range(4))
    )

    await replica.cleanup()
    await eventually(traces.read_text)
    assert traces.read_text() == "ran\n"


@pytest.mark.parametrize(
    ("dies", "want_start"),
    [
        pytest.param("before the shim", False, id="before-the-shim"),
        pytest.param("before the order", False, id="before-the-order"),
        pytest.param("before the reply", True, id="before-the-reply"),
    ],
)
async def test_w15_a_gateway_killed_while_it_starts_a_job_leaves_one_process(
    launcher, tmp_path, dies, want_start
):
    """The next one starts the job again, not knowing how far that was."""
    job, traces = a_leaving_trace(tmp_path)
    script = """
        import asyncio, os, subprocess, sys
        from pathlib import Path
        from tests.support.jobs import a_job, make_launcher

        dies, directory, *command = sys.argv[1:]
        class Dying(subprocess.Popen):
            def __init__(self, *args, **kwargs):
                if dies == "before the shim":
                    os._exit(9)
                super().__init__(*args, **kwargs)
            def communicate(self, order, timeout):
                if dies == "before the reply":
                    self.stdin.write(order)
                    self.stdin.flush()
                os._exit(9)
        subprocess.Popen = Dying
        asyncio.run(make_launcher(Path(directory)).start(a_job(*command)))
    """
    await run_script(script, dies, tmp_path, *job.config.scheduler_cmd, want_status=9)
    if want_start:
        await eventually(traces.read_text)

    await launcher.start(job)

    await eventually(traces.read_text)
    assert (await view(launcher)).state is JobState.RUNNING
    assert traces.read_text() == "ran\n"


async def test_a_job_that_has_ended_is_not_started_again(launcher, tmp_path):
    traces = tmp_path / "traces"
    job = a_job(*python(f"print('ran', file=open({str(traces)!r}, 'a'))"))
    await launcher.start(job)
    await wait_until_ended(launcher)

    await launcher.start(job)

    assert (await view(launcher)).state is JobState.ENDED
    assert traces.read_text() == "ran\n"


async def test_a_job_that_was_stopped_before_its_start_is_never_started(
    launcher, tmp_path
):
    """A start may come late, from a replica that does not know of the stop."""
    job, traces = a_leaving_trace(tmp_path)

    assert await launcher.stop(SCHEDULER)
    await launcher.start(job)

    ended = await view(launcher)
    assert ended.state is JobState.ENDED
    assert ended.message == "stopped before it was started"
    assert find_marked(tmp_path) == []
    assert traces.read_text() == ""


async def test_a_job_outlives_the_process_that_started_it(launcher, tmp_path):
    """Started by another process of ours, which is gone when we look."""
    script = """
        import asyncio, sys
        from pathlib import Path
        from tests.support.jobs import a_job, make_launcher

        directory, *command = sys.argv[1:]
        asyncio.run(make_launcher(Path(directory)).start(a_job(*command)))
    """
    job, traces = a_leaving_trace(tmp_path)
    await run_script(script, tmp_path, *job.config.scheduler_cmd)

    await eventually(traces.read_text)
    assert await launcher.find_jobs() == (SCHEDULER,)
    assert (await view(launcher)).state is JobState.RUNNING
    await end(launcher, SCHEDULER)

    assert find_marked(tmp_path) == []
