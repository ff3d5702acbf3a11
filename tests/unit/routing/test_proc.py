"""What /proc tells: processes by pid and start, and who listens."""

import os
import socket
import subprocess
import sys

from backends.routing.proc import find_listener, find_pids, read_command, read_process


def test_a_process_is_known_by_pid_and_start() -> None:
    me = read_process(os.getpid())

    assert me is not None
    assert me.pid == os.getpid()
    assert me.started_ticks > 0
    assert read_process(os.getpid()) == me
    assert os.getpid() in find_pids()


def test_the_dead_and_the_unburied_are_nobody() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on

    assert read_process(child.pid) is None
    assert read_command(child.pid) == ()
    child.wait()
    assert read_process(child.pid) is None


def test_a_name_with_brackets_does_not_mislead() -> None:
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 2'); input()"
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True);" + program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        child.stdout.readline()
        before = read_process(child.pid)
        assert before is not None
        assert read_command(child.pid)[:2] == (sys.executable, "-c")
        child.stdin.close()


def test_the_holder_of_a_port_is_found() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert find_listener(port) is None
        listener.listen()
        assert find_listener(port) == os.getpid()
