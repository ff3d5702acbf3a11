"""Files that are replaced in one step and readable by us alone."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backends.routing.files import (
    FileLock,
    ensure_certificate,
    locked,
    read_text,
    write_atomically,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_file_is_replaced_whole_and_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "routes.yml"
    path.write_text("old")
    path.chmod(0o644)

    write_atomically(path, "new")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    write_atomically(path, "newer", mode=0o644)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("newer", 0o644)
    assert os.listdir(tmp_path) == ["routes.yml"]  # noqa: PTH208 - names are wanted


def test_a_reader_sees_one_text_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "routes.yml"
    texts = ("a" * 100_000, "b" * 100_000)
    write_atomically(path, texts[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in texts:
                write_atomically(path, text)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        seen = {read_text(path) for _ in range(200)}
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    assert seen <= set(texts)


def test_a_write_that_fails_leaves_the_old_text(tmp_path: Path) -> None:
    path = tmp_path / "routes.yml"
    write_atomically(path, "old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")

    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["routes.yml"]  # noqa: PTH208 - names are wanted


def test_the_default_certificate_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "default.pem"
    ensure_certificate(path, NOW)
    first = path.read_text()
    ensure_certificate(path, NOW)

    assert path.read_text() == first
    assert first.count("-----BEGIN") == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_is_one_holders_among_threads_and_processes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = FileLock(path)
    with locked(path):
        assert not other.try_to_take()
        child = f"import fcntl; fcntl.flock(open({str(path)!r}), 2 | 4)"
        refused = subprocess.run(
            [sys.executable, "-c", child], capture_output=True, check=False
        )
        assert b"BlockingIOError" in refused.stderr
    assert other.try_to_take()
    other.close()
