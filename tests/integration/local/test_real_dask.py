"""Schedulers and workers of Dask itself, as the launcher starts them by default."""

import asyncio
import re
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from dask_gateway.client import GatewaySecurity

from backends.database.launcher import JobRef, JobState, Role
from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
    WORKER,
    a_job,
    credentials_of,
    end,
    find_marked,
    run_script,
    view,
    wait_until_ended,
)
from tests.support.old_distributed import find_old_python

pytestmark = pytest.mark.integration

STRANGER = JobRef("c2", Role.WORKER, "c2-worker-0")

CLIENT = """
import sys
from pathlib import Path
from dask_gateway.client import GatewaySecurity
from distributed import Client

address, certificate, key, action = sys.argv[1:]
security = GatewaySecurity(
    tls_cert=Path(certificate).read_text(), tls_key=Path(key).read_text()
)
with Client(address, security=security, timeout=60) as client:
    if action == "compute":
        client.wait_for_workers(1, timeout=60)
        print(sum(client.gather(client.map(lambda x: x + 1, range(10)))))
        print(client.submit(lambda: __import__("os").getppid()).result())
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    print(*(worker["name"] for worker in workers))
"""


async def read_log(launcher, ref=SCHEDULER) -> str:
    lines = [one async for one in launcher.read_logs(ref, tail=999, follow=False)]
    return "\n".join(lines)


async def start_scheduler(launcher, **changes) -> str:
    """Start a scheduler and return its address, as a worker needs it."""
    await launcher.start(a_job(**changes))

    async def find():
        text = await read_log(launcher)
        assert (await view(launcher)).state is JobState.RUNNING, text
        return re.search(r"Scheduler at: +(tls://127\.0\.0\.1:\d+)", text)

    return (await eventually(find, within=60))[1]


async def ask(tmp_path, address: str, cluster: str, action: str) -> list[str]:
    """Connect as the stock client of ``cluster`` does; return what it printed."""
    pair = credentials_of(cluster).client
    certificate, key = tmp_path / "client.crt", tmp_path / "client.pem"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    return (await run_script(CLIENT, address, certificate, key, action)).splitlines()


async def test_a_client_computes_on_a_worker_and_nothing_is_left_afterwards(
    launcher, tmp_path
):
    address = await start_scheduler(launcher)
    await launcher.start(a_job(ref=WORKER, scheduler_address=address))

    total, nanny, names = await ask(tmp_path, address, "c1", "compute")

    assert total == "55"
    assert names == WORKER.name
    port = int(address.rpartition(":")[2])
    assert await launcher.owns_port(SCHEDULER, port) is True
    assert await launcher.owns_port(WORKER, port) is False
    assert (await view(launcher, WORKER)).pids == {int(nanny)}
    await end(launcher, WORKER, SCHEDULER)
    assert find_marked(tmp_path) == []
    for ref in (WORKER, SCHEDULER):
        assert (await view(launcher, ref)).message == "stopped on request"


async def test_w35_no_process_of_a_worker_can_show_the_token(launcher, tmp_path):
    """The nanny's child too: a task reads its own environment."""
    address = await start_scheduler(launcher)
    await launcher.start(a_job(ref=WORKER, scheduler_address=address))
    await ask(tmp_path, address, "c1", "compute")

    directory = tmp_path / "clusters/c1" / WORKER.name
    pids = [pid for pid in find_marked(directory) if not _is_shim(pid)]
    token = credentials_of("c1").token.encode()
    assert len(pids) >= 2
    for pid in pids:
        environment = _read(pid, "environ")
        assert token not in environment
        assert b"API_TOKEN" not in environment


async def test_w31_a_worker_with_another_clusters_certificate_never_gets_in(
    launcher, tmp_path
):
    address = await start_scheduler(launcher)

    await launcher.start(a_job(ref=STRANGER, scheduler_address=address))

    async def has_been_refused():
        return "certificate verify failed" in await read_log(launcher, STRANGER)

    await eventually(has_been_refused, within=60)
    assert await ask(tmp_path, address, "c1", "list") == [""]
    assert "Register worker" not in await read_log(launcher)


async def test_w31_a_worker_that_trusts_the_scheduler_is_refused_by_it(
    launcher, tmp_path
):
    """Only its own certificate is of another cluster."""
    address = await start_scheduler(launcher)
    job = a_job(ref=STRANGER, scheduler_address=address)
    mixed = replace(
        credentials_of("c2"), ca_certificate=credentials_of("c1").ca_certificate
    )

    await launcher.start(replace(job, credentials=mixed))

    async def has_failed():
        text = await read_log(launcher, STRANGER)
        return "Traceback" in text or "unknown ca" in text.lower() or "alert" in text

    await eventually(has_failed, within=60)
    assert await ask(tmp_path, address, "c1", "list") == [""]
    assert "Register worker" not in await read_log(launcher)


async def test_the_scheduler_answers_neither_plaintext_nor_a_foreign_certificate(
    launcher,
):
    address = await start_scheduler(launcher)
    port = int(address.rpartition(":")[2])

    def speak_plainly() -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"\0" * 64)
            try:
                return connection.recv(1000)
            except ConnectionResetError:
                return b""

    def pose() -> None:
        pair = credentials_of("c2").client
        context = GatewaySecurity(
            tls_key=pair.key, tls_cert=pair.certificate
        ).get_connection_args("client")["ssl_context"]
        context.verify_mode = ssl.CERT_NONE  # so that only the scheduler can refuse
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
            context.wrap_socket(connection, server_hostname="c1") as tls,
        ):
            tls.recv(1)

    answer = await asyncio.to_thread(speak_plainly)
    # At most an alert of TLS: record type 21.
    assert answer == b"" or answer[0] == 21
    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(pose)


async def test_a_worker_whose_scheduler_is_gone_ends_and_says_so(launcher):
    """It does not wait for ever for a scheduler that will not come."""
    address = await start_scheduler(launcher)
    await launcher.start(a_job(ref=WORKER, scheduler_address=address))

    async def has_joined():
        return "Register worker" in await read_log(launcher)

    await eventually(has_joined, within=60)
    await end(launcher, SCHEDULER)

    await wait_until_ended(launcher, WORKER)


async def test_the_oldest_distributed_takes_the_same_commands(launcher):
    old = str(await asyncio.to_thread(find_old_python))
    address = await start_scheduler(launcher, extra={"python": old})

    await launcher.start(
        a_job(ref=WORKER, scheduler_address=address, extra={"python": old})
    )

    async def has_joined():
        text = await read_log(launcher, WORKER)
        assert (await view(launcher, WORKER)).state is JobState.RUNNING, text
        return "Register worker <WorkerState 'tls://" in await read_log(launcher)

    await eventually(has_joined, within=90)
    assert WORKER.name in await read_log(launcher)


def _is_shim(pid: int) -> bool:
    return b"shim.py" in _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()
