"""W33: a scheduler may report any port; only one of its own is routed to."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.jobs import SCHEDULER, WORKER, a_job, python, wait_until_ended

pytestmark = pytest.mark.integration

LISTEN = """
import socket, sys, time
listener = socket.create_server(("{host}", 0), family=socket.{family})
print(listener.getsockname()[1], flush=True)
time.sleep(99)
"""
CHILD = """
import os, subprocess, sys, time
code = sys.argv[1]
if not os.fork():
    os.setsid()
    exec(code)
time.sleep(99)
"""


def listening(host: str = "127.0.0.1", family: str = "AF_INET") -> str:
    return LISTEN.format(host=host, family=family)


async def start_listening(launcher, *command: str) -> int:
    """Start a job that prints its port; return the port."""
    await launcher.start(a_job(*command))

    async def read():
        return [
            one async for one in launcher.read_logs(SCHEDULER, tail=1, follow=False)
        ]

    return int((await eventually(read, within=60))[0])


async def test_w33_a_port_on_which_the_job_listens_is_its_own(launcher):
    port = await start_listening(launcher, *python(listening()))

    assert await launcher.owns_port(SCHEDULER, port) is True


async def test_w33_listening_on_every_interface_counts(launcher):
    port = await start_listening(launcher, *python(listening("")))

    assert await launcher.owns_port(SCHEDULER, port) is True


@pytest.mark.skipif(
    not Path("/proc/net/if_inet6").exists(), reason="the kernel has no IPv6"
)
async def test_w33_listening_on_ipv6_wildcard_counts(launcher):
    port = await start_listening(launcher, *python(listening("::", "AF_INET6")))

    assert await launcher.owns_port(SCHEDULER, port) is True


async def test_w33_a_process_that_the_job_started_counts_too(launcher):
    command = (*python(CHILD), listening())
    port = await start_listening(launcher, *command)

    assert await launcher.owns_port(SCHEDULER, port) is True


async def test_w33_the_port_of_somebody_else_is_not_the_jobs(launcher):
    await start_listening(launcher, *python(listening()))
    with closing(socket.create_server(("127.0.0.1", 0))) as ours:
        port = ours.getsockname()[1]

        assert await launcher.owns_port(SCHEDULER, port) is False


async def test_w33_a_port_that_is_shared_with_somebody_else_is_not_the_jobs(launcher):
    """Who connects there may meet the other one."""
    share = listening().replace(
        'listener = socket.create_server(("127.0.0.1", 0), family=socket.AF_INET)',
        "listener = socket.socket()\n"
        "listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        "listener.bind(('127.0.0.1', 0))\n"
        "listener.listen()",
    )
    port = await start_listening(launcher, *python(share))
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", port))
        other.listen()

        assert await launcher.owns_port(SCHEDULER, port) is False
    assert await launcher.owns_port(SCHEDULER, port) is True


async def test_w33_a_port_without_a_listener_is_nobodys(launcher):
    await launcher.start(a_job(*python("import time; time.sleep(99)")))
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))

        assert await launcher.owns_port(SCHEDULER, bound.getsockname()[1]) is False


async def test_w33_a_job_that_has_ended_owns_nothing(launcher):
    await launcher.start(a_job(*python("pass")))
    await wait_until_ended(launcher)
    with closing(socket.create_server(("127.0.0.1", 0))) as ours:
        port = ours.getsockname()[1]

        assert await launcher.owns_port(SCHEDULER, port) is False
        assert await launcher.owns_port(WORKER, port) is False
