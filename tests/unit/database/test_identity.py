import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.database.identity import ProcessIdentity

HERE = ProcessIdentity.of_this_process()


def test_a_process_is_itself_and_lives():
    assert HERE.pid == os.getpid()
    assert HERE.start_time > 0
    assert not HERE.is_gone(HERE)


def test_it_can_be_written_down_and_read():
    assert ProcessIdentity.parse(HERE.format()) == HERE


@pytest.mark.parametrize("text", ["", "a b c", "host boot ns pid 7", "a b c 1 2 3"])
def test_what_is_no_process_is_none(text):
    assert ProcessIdentity.parse(text) is None


def test_another_process_with_the_same_number_is_another():
    assert replace(HERE, start_time=HERE.start_time + 1).is_gone(HERE)


def test_a_process_that_has_ended_is_gone():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = replace(HERE, pid=child.pid, start_time=_start_time(child.pid))
    alive = other.is_gone(HERE)
    child.communicate(b"\n", timeout=30)

    assert not alive
    assert other.is_gone(HERE)


def test_nothing_is_known_of_another_machine():
    elsewhere = replace(HERE, machine="elsewhere - -", start_time=1)

    assert not elsewhere.is_gone(HERE)


def test_nothing_is_known_where_the_kernel_shows_nothing():
    blind = replace(HERE, start_time=0)

    assert not replace(HERE, start_time=1).is_gone(blind)


def _start_time(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])
