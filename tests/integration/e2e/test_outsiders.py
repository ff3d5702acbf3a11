"""Workers that others start: they join by the public port and are nobody's to end."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.aio.clock import SystemClock
from gateway.credentials import make_credentials
from gateway.domain.credentials import KeyPair
from tests.support.cluster_processes import find_workers
from tests.support.eventually import eventually
from tests.support.lives import look_up, running_workers
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# The client's module brings the protocol `gateway://`, which is TLS with the SNI
# `daskgateway-<name>`.
PROGRAM = "import dask_gateway\nfrom distributed.cli.dask_worker import main\nmain()"


@asynccontextmanager
async def outsider(
    stack: Stack, cluster: str, name: str, pair: KeyPair, folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a worker as somebody would on a machine of their own."""
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
        path.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM),
        f"gateway://127.0.0.1:{stack.port}/{cluster}",
        *("--tls-ca-file", str(paths[0]), "--tls-cert", str(paths[0])),
        *("--tls-key", str(paths[1]), "--protocol", "tls", "--host", "127.0.0.1"),
        *("--name", name, "--no-nanny", "--nthreads", "1", "--no-dashboard"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_worker_from_outside_joins_and_outlives_every_scale(
    gateway, stack, tmp_path
):
    """It keeps its data, is counted by nobody, and its name is free."""
    async with await gateway.new_cluster() as cluster:
        own = f"{cluster.name}-worker-0"
        async with (
            outsider(
                stack, cluster.name, "my-laptop", pair_of(stack, cluster.name), tmp_path
            ) as process,
            cluster.get_client(set_as_default=False) as client,
        ):
            await client.wait_for_workers(1)
            held = client.submit(list, range(1000), workers=["my-laptop"])
            assert len(await held) == 1000
            await cluster.scale(1)
            await client.wait_for_workers(2)
            await eventually(lambda: running_workers(stack, cluster.name) == [own])
            assert list(find_workers(stack, cluster.name)) == [own]

            await cluster.scale(0)
            await eventually(lambda: not find_workers(stack, cluster.name), within=60)

            async def is_alone() -> bool:
                return await _names(client) == ["my-laptop"]

            await eventually(is_alone, within=60)
            for count in (1, 0):
                await cluster.scale(count)
                await eventually(
                    lambda n=count: len(running_workers(stack, cluster.name)) == n,
                    within=90,
                )
            await eventually(is_alone, within=60)
            assert process.returncode is None
            # The very data, not made anew: nothing else could have.
            assert len(await held) == 1000
            names = [
                w["name"] for w in look_up(stack, cluster.name, "/workers")["workers"]
            ]
            assert "my-laptop" not in names


async def test_a_worker_with_another_clusters_certificate_does_not_join(
    gateway, stack, tmp_path
):
    foreign = make_credentials("another", SystemClock().now()).client
    async with await gateway.new_cluster() as cluster:
        # It trusts the cluster, but shows what the other one has signed.
        authority = pair_of(stack, cluster.name).certificate
        pair = KeyPair(foreign.certificate + authority, foreign.key)
        async with (
            outsider(stack, cluster.name, "stranger", pair, tmp_path),
            cluster.get_client(set_as_default=False) as client,
        ):
            # The proxy's own probes break off, and never fail so.
            log = stack.directory / f"data/clusters/{cluster.name}/scheduler/output.log"
            await eventually(
                lambda: "CERTIFICATE_VERIFY_FAILED" in log.read_text(), within=60
            )
            assert await _names(client) == []


async def test_heartbeats_of_the_stock_preload_decide_nothing(gateway, stack):
    """200 to any beat; a 200 to one that names ``closing_workers`` would close them."""
    async with await gateway.new_cluster() as cluster:
        token = _token(stack, cluster.name)
        beat: dict[str, Any] = {
            "scheduler_address": "tls://10.9.8.7:8786",
            "dashboard_address": "http://10.9.8.7:8787",
            "api_address": "http://10.9.8.7:8788",
            "count": 5,
            "active_workers": ["my-laptop", "nobody-knows-me"],
            "closing_workers": [],
            "closed_workers": ["long-gone"],
        }
        assert _beat(stack, cluster.name, token, beat) == 200
        closing = {**beat, "count": 0, "closing_workers": ["my-laptop"]}
        assert _beat(stack, cluster.name, token, closing) == 503
        assert _beat(stack, cluster.name, "wrong", beat) == 401
        # Neither address nor number was believed: it still works as it did.
        async with cluster.get_client(set_as_default=False) as client:
            await cluster.scale(1)
            assert await client.submit(sum, range(10)) == 45
        own = f"{cluster.name}-worker-0"
        await eventually(lambda: running_workers(stack, cluster.name) == [own])


def pair_of(stack: Stack, cluster: str) -> KeyPair:
    """Return what a client of the cluster, and so an outsider, is given."""
    record = look_up(stack, cluster)
    return KeyPair(record["tls_cert"], record["tls_key"])


async def _names(client: Any) -> list[str]:
    workers = (await client.scheduler.identity(n_workers=-1))["workers"].values()
    return [worker["name"] for worker in workers]


def _token(stack: Stack, cluster: str) -> str:
    """Return what a cluster's scheduler was given."""
    folder = stack.directory / f"data/clusters/{cluster}/scheduler/files"
    (path,) = folder.glob("*token*")
    return path.read_text()


def _beat(stack: Stack, cluster: str, token: str, beat: dict[str, Any]) -> int:
    request = urllib.request.Request(
        f"{stack.address}/api/v1/clusters/{cluster}/heartbeat",
        data=json.dumps(beat).encode(),
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
