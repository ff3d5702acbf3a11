"""What cannot be started says why, and what to do; what may pass is tried again."""

import stat

import pytest

from backends.database.launcher import JobState, StartFailed
from backends.local import shim, starting
from backends.local.launcher import PLUGIN
from backends.local.layout import JobDirectory, try_lock
from gateway.domain.errors import ConfigError, InvariantError, Unavailable
from tests.support.jobs import (
    SCHEDULER,
    a_job,
    make_launcher,
    python,
    view,
)

pytestmark = pytest.mark.integration


async def test_a_missing_command_names_itself_its_path_and_the_setting(launcher):
    job = a_job("no-such-dask", environment={"PATH": "/nowhere"})

    with pytest.raises(StartFailed) as caught:
        await launcher.start(job)

    text = str(caught.value)
    assert "'no-such-dask'" in text
    assert "'/nowhere'" in text
    assert "c.LocalClusterConfig.scheduler_cmd" in text


async def test_the_command_is_looked_up_in_the_jobs_path_not_in_ours(
    launcher, tmp_path
):
    program = tmp_path / "bin" / "only-here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 5\n")
    program.chmod(0o755)

    await launcher.start(
        a_job("only-here", environment={"PATH": f"{program.parent}:/bin:/usr/bin"})
    )

    assert (await view(launcher)).state in (JobState.RUNNING, JobState.ENDED)


async def test_a_refusal_is_repeated_and_shows_in_the_view(launcher):
    for _ in range(2):
        with pytest.raises(StartFailed, match="'no-such-dask'"):
            await launcher.start(a_job("no-such-dask"))

    seen = await view(launcher)
    assert (seen.state, seen.exit_code) == (JobState.ENDED, None)
    assert "'no-such-dask'" in seen.message


async def test_a_file_that_is_no_program_says_so(launcher, tmp_path):
    text = tmp_path / "notes.txt"
    text.touch(mode=0o644)

    with pytest.raises(StartFailed, match="Permission denied"):
        await launcher.start(a_job(str(text)))


async def test_a_missing_working_directory_names_the_setting(launcher):
    job = a_job(*python("pass"), extra={"working_directory": "/no/such/place"})

    with pytest.raises(StartFailed) as caught:
        await launcher.start(job)

    assert "'/no/such/place'" in str(caught.value)
    assert "c.LocalClusterConfig.working_directory" in str(caught.value)


async def test_a_null_character_in_a_command_is_refused(launcher):
    with pytest.raises(StartFailed, match="Invalid argument"):
        await launcher.start(a_job(*python("pass"), "a\0b"))


async def test_what_the_system_refuses_for_now_may_be_started_later(launcher, tmp_path):
    """The clusters' directory is gone for a while: a file stands in its place."""
    clusters = tmp_path / "clusters"
    clusters.rmdir()
    clusters.touch()
    job = a_job(*python("import time; time.sleep(99)"))

    with pytest.raises(Unavailable, match="clusters"):
        await launcher.start(job)
    assert (await view(launcher)).state is JobState.ABSENT

    clusters.unlink()
    clusters.mkdir()
    await launcher.start(job)
    assert (await view(launcher)).state is JobState.RUNNING


async def test_a_start_that_was_cut_short_leaves_nothing_that_hinders_the_next(
    launcher, tmp_path
):
    """What an earlier attempt wrote is no longer ours to trust: links, too."""
    files = tmp_path / "clusters/c1/scheduler/files"
    files.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (files / "dask.pem").symlink_to(victim)
    (files / "scratch").symlink_to(tmp_path)

    await launcher.start(a_job(*python("import time; time.sleep(99)")))

    assert victim.read_text() == "untouched"
    assert not (files / "dask.pem").is_symlink()
    assert not (files / "scratch").is_symlink()


@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        ("..", "scheduler"),
        ("c1/../c2", "scheduler"),
        ("", "scheduler"),
        ("c1", "../scheduler"),
        ("c1", "c2-worker-0"),
        ("c1", "c1-worker-0"),  # a worker's name, a scheduler's role
    ],
)
async def test_no_name_leads_outside_the_clusters_directory(launcher, cluster, name):
    ref = SCHEDULER.__class__(cluster, SCHEDULER.role, name)

    with pytest.raises(InvariantError):
        await launcher.observe([ref])
    with pytest.raises(InvariantError):
        await launcher.stop(ref)


async def test_forgetting_takes_no_path_for_a_name(launcher, tmp_path):
    (tmp_path / "precious").mkdir()

    for name in ("../precious", "..", "", "/"):
        with pytest.raises(InvariantError):
            await launcher.forget(name)

    assert (tmp_path / "precious").is_dir()


async def test_set_up_names_every_problem_at_once(tmp_path):
    (tmp_path / "clusters").touch()
    launcher = make_launcher(tmp_path, plugin=tmp_path / "no-plugin.py")

    with pytest.raises(ConfigError) as caught:
        await launcher.setup()

    await launcher.cleanup()
    assert len(caught.value.problems) == 2
    assert "clusters_directory" in caught.value.problems[0]
    assert "no-plugin.py" in caught.value.problems[1]


async def test_set_up_makes_a_directory_that_only_we_may_enter(tmp_path):
    launcher = make_launcher(tmp_path)

    await launcher.setup()

    await launcher.cleanup()
    assert stat.S_IMODE((tmp_path / "clusters").stat().st_mode) == 0o700


def test_the_plugin_that_schedulers_load_is_where_the_launcher_looks():
    assert PLUGIN.is_file()


async def test_a_supervisor_that_dies_at_once_is_tried_again_and_named(
    launcher, tmp_path, monkeypatch
):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no luck')")
    with monkeypatch.context() as patch:
        patch.setattr(shim, "__file__", str(broken))
        with pytest.raises(Unavailable, match=r"supervisor\.log"):
            await launcher.start(a_job(*python("pass")))

    log = tmp_path / "clusters/c1/scheduler/supervisor.log"
    assert log.read_text() == "no luck\n"
    assert (await view(launcher)).state is JobState.ABSENT
    await launcher.start(a_job(*python("import time; time.sleep(99)")))
    assert (await view(launcher)).state is JobState.RUNNING


async def test_a_job_that_somebody_holds_for_too_long_is_tried_again(
    launcher, tmp_path, monkeypatch
):
    monkeypatch.setattr(starting, "_LOCK_TIMEOUT_S", 0.2)
    directory = tmp_path / "clusters/c1/scheduler"
    directory.mkdir(parents=True)

    with try_lock(JobDirectory(directory)) as lock:
        assert lock is not None
        with pytest.raises(Unavailable, match="locked"):
            await launcher.start(a_job(*python("pass")))
        # Nor can it be stopped while nobody knows what becomes of it.
        assert not await launcher.stop(SCHEDULER)

    await launcher.start(a_job(*python("import time; time.sleep(99)")))
    assert (await view(launcher)).state is JobState.RUNNING
