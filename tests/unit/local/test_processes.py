import os
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from backends.local.processes import (
    Identity,
    find_members,
    is_running,
    listens_on,
    read_process,
    send_signal,
)

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def child():
    with subprocess.Popen(SLEEP, env={"MARK": "x"}, start_new_session=True) as process:
        yield process
        process.kill()


def identify(pid: int) -> Identity:
    return read_process(pid).identity


def test_a_process_is_itself_and_no_other(child):
    identity = identify(child.pid)

    assert is_running(identity)
    assert not is_running(Identity(child.pid, identity.start_time - 1))


def test_a_name_that_looks_like_fields_confuses_nobody(tmp_path):
    """The kernel shows the name of the file as it is, spaces and brackets too."""
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "600"]) as process:
        try:
            found = read_process(process.pid)
            assert found.parent == os.getpid()
        finally:
            process.kill()


def test_a_zombie_does_not_run(child):
    identity = identify(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not is_running(identity)
    assert find_members([identity], identity, "MARK=x") == frozenset()


def test_w15_a_signal_reaches_that_process_or_nobody(child):
    identity = identify(child.pid)

    send_signal(Identity(child.pid, identity.start_time - 1), signal.SIGKILL)
    assert child.poll() is None

    send_signal(identity, signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    send_signal(identity, signal.SIGKILL)


def test_members_are_found_by_session_by_parent_and_by_environment(child):
    identity = identify(child.pid)
    nobody = Identity(child.pid, identity.start_time - 1)

    want = {identity}
    assert find_members([], identity, "MARK=none") == want
    assert find_members([identity], nobody, "MARK=none") == want
    assert find_members([], nobody, "MARK=x") == want
    assert find_members([nobody], nobody, "MARK=") == frozenset()


def test_listening_is_told_from_being_connected():
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_connection(server.getsockname())) as client,
    ):
        assert listens_on([os.getpid()], server.getsockname()[1]) is True
        assert listens_on([os.getpid()], client.getsockname()[1]) is False
        assert listens_on([], server.getsockname()[1]) is False


def test_an_address_that_loopback_cannot_reach_does_not_count():
    with closing(socket.create_server(("127.0.0.2", 0))) as server:
        assert listens_on([os.getpid()], server.getsockname()[1]) is False
