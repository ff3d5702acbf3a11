import errno
import json

import pytest

from backends.database.launcher import JobState, Role
from backends.local.layout import JobDirectory
from backends.local.views import describe_failure, is_final, view_job

ORDER = {
    "command": ["dask", "worker"],
    "environment": {"PATH": "/bin"},
    "working_directory": "/projects/alice",
    "user": {"name": "alice"},
}


@pytest.mark.parametrize(
    ("stage", "number", "want"),
    [
        ("command", errno.ENOENT, ["'dask'", "'/bin'", "worker_cmd"]),
        ("directory", errno.EACCES, ["'/projects/alice'", "working_directory"]),
        ("user", errno.EPERM, ["'alice'", "root", "UnsafeLocalBackend"]),
        ("session", errno.EPERM, ["worker", "session"]),
    ],
)
def test_each_stage_of_a_start_says_what_failed_and_what_to_do(stage, number, want):
    failure = {"stage": stage, "errno": number}

    text = describe_failure(failure, ORDER, Role.WORKER)

    assert is_final(failure)
    for part in want:
        assert part in text
    assert not text.endswith(".")


def test_what_the_machine_lacks_for_now_is_not_final():
    assert not is_final({"stage": "supervise", "errno": errno.ENOSPC})


def test_a_refusal_whose_words_were_lost_still_names_its_stage(tmp_path):
    """The starter died before it could write them down."""
    record = {"exit_code": None, "failure": {"stage": "command", "errno": 2}}
    (tmp_path / "exit.json").write_text(json.dumps(record))

    seen = view_job(JobDirectory(tmp_path))

    assert seen.state is JobState.ENDED
    assert "command" in seen.message
    assert "No such file" in seen.message


def test_long_lines_are_cut_in_what_is_kept(tmp_path):
    (tmp_path / "exit.json").write_text('{"exit_code": 1}')
    (tmp_path / "output.log").write_text("x" * 5000 + "\nend\n")

    cut, end = view_job(JobDirectory(tmp_path)).log_tail

    assert len(cut) == 2000
    assert end == "end"
