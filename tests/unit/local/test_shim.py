"""Pieces of the shim that can be looked at from inside; the rest is integration."""

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.local import shim
from tests.support.jobs import SYSTEM_PYTHON


@pytest.mark.parametrize(
    ("elapsed_s", "want"),
    [
        (0, signal.SIGINT),
        (9.9, signal.SIGINT),
        (10, signal.SIGTERM),
        (14.9, signal.SIGTERM),
        (15, signal.SIGKILL),
        (1000, signal.SIGKILL),
    ],
)
def test_signals_grow_with_the_time_that_has_passed(elapsed_s, want):
    assert shim.choose_signal(elapsed_s, 10, 5) is want


@pytest.mark.parametrize("elapsed_s", [0, 0.1, 4.9])
def test_without_patience_for_sigint_it_begins_with_sigterm(elapsed_s):
    assert shim.choose_signal(elapsed_s, 0, 5) is signal.SIGTERM


def test_the_log_keeps_the_newest_in_two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = shim.Log(limit_bytes=0)  # never less than one pipe's worth in each
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    lines = [b"%06d\n" % number for number in range(40000)]

    for start in range(0, len(lines), 1000):
        os.write(writer, b"".join(lines[start : start + 1000]))
        assert log.take(reader) is True
    assert log.take(reader) is None
    os.close(writer)
    assert log.take(reader) is False

    kept = (tmp_path / shim.OLD_LOG).read_bytes() + (tmp_path / shim.LOG).read_bytes()
    assert len(kept) <= 2 * 65536
    assert kept.splitlines(keepends=True) == lines[-(len(kept) // 7) :]
    os.close(reader)
    os.close(log.file)


def test_a_log_that_was_begun_is_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / shim.LOG).write_bytes(b"before\n")

    log = shim.Log(limit_bytes=10**6)
    log.write(b"after\n")

    assert (tmp_path / shim.LOG).read_bytes() == b"before\nafter\n"
    assert log.size == 13
    os.close(log.file)


def test_a_full_disk_loses_output_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / shim.LOG).symlink_to("/dev/full")
    log = shim.Log(limit_bytes=10**6)
    reader, writer = os.pipe()
    os.write(writer, b"lost")

    assert log.take(reader) is True

    for descriptor in (reader, writer, log.file):
        os.close(descriptor)


def test_descendants_are_found_at_any_depth():
    code = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        # This process may have further children, of other tests.
        deadline = time.monotonic() + 30
        while not (below := shim.find_descendants(child.pid)):
            assert time.monotonic() < deadline
        (grandchild,) = below
        assert {child.pid, grandchild} <= set(shim.find_descendants(os.getpid()))
        assert b"sleep" in Path(f"/proc/{grandchild}/cmdline").read_bytes()
    finally:
        for pid in (*shim.find_descendants(child.pid), child.pid):
            os.kill(pid, signal.SIGKILL)
        child.wait(30)


def test_a_process_that_is_gone_is_signalled_without_a_word():
    child = subprocess.Popen(["true"])
    child.wait(30)

    shim.signal_quietly(os.kill, child.pid, signal.SIGTERM)


def test_a_record_is_private_and_replaces_the_former_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old = os.umask(0)
    try:
        shim.write_durably("record", {"a": 1})
        shim.write_durably("record", {"b": 2})
    finally:
        os.umask(old)

    assert (tmp_path / "record").read_text() == '{"b": 2}'
    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_removing_a_tree_follows_no_link(tmp_path):
    victim = tmp_path / "victim"
    (victim / "below").mkdir(parents=True)
    (victim / "file").touch()
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "link").symlink_to(victim)
    (tree / "a" / "link").symlink_to(victim)
    (tree / "a" / "b" / "file").symlink_to(victim / "file")
    os.mkfifo(tree / "a" / "pipe")

    shim.remove_tree(tree)

    assert not tree.exists()
    assert (victim / "file").exists()
    assert (victim / "below").exists()


def test_a_link_in_the_place_of_the_tree_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "tree").symlink_to(victim)

    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        shim.remove_tree(tmp_path / "tree")

    assert victim.exists()


def test_no_depth_is_too_deep_to_be_removed(tmp_path):
    """Python's own function gives up at its limit of recursion."""
    tree = tmp_path / "tree"
    tree.mkdir()
    directory = os.open(tree, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=directory)
        below = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)

    shim.remove_tree(tree)

    assert not tree.exists()


def test_what_was_closed_to_its_owner_is_removed_too(tmp_path):
    """By the owner, who has no right of root's."""
    tree = tmp_path / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "inner" / "file").touch()
    person = {}
    if os.geteuid() == 0:
        person = {"user": 65534, "group": 65534, "extra_groups": []}
        for path in (tmp_path, tree, tree / "closed", tree / "closed" / "inner"):
            os.chown(path, 65534, 65534)
    (tree / "closed" / "inner").chmod(0o000)
    (tree / "closed").chmod(0o500)
    tree.chmod(0o000)
    code = (
        "import sys\n"
        "names = {'__name__': 'shim'}\n"
        "exec(sys.stdin.read(), names)\n"
        "names['remove_tree']('tree')\n"
    )

    subprocess.run(
        [SYSTEM_PYTHON, "-I", "-c", code],
        input=inspect.getsource(shim),
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=60,
        **person,
    )

    assert not tree.exists()


def test_removing_what_is_not_there_is_no_error(tmp_path):
    shim.remove_tree(tmp_path / "nothing")
