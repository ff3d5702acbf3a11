"""Faults of the peer that only a whole gateway can show not to have; by number."""

import asyncio
import shutil
import sys
import time
from pathlib import Path

import pytest
from dask_gateway import BasicAuth, Gateway
from dask_gateway.client import ClusterStatus

from gateway.domain.names import format_sni
from tests.integration.e2e.conftest import connect
from tests.support.eventually import eventually
from tests.support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


async def test_w3_of_scale_requests_in_quick_succession_the_last_one_holds(
    gateway, stack
):
    """The peer loses one that comes while a heartbeat is under way."""
    async with await gateway.new_cluster() as cluster:
        for wanted in (2, 1, 2, 1):
            await gateway.scale_cluster(cluster.name, wanted)

        await eventually(lambda: _statuses(stack, cluster.name) == ["Running"])
        wanted_since = time.monotonic()
        # It stays: nothing that was asked for before comes up late.
        await eventually(lambda: time.monotonic() - wanted_since > 5)
        assert _statuses(stack, cluster.name) == ["Running"]


async def test_w4_the_default_commands_start_where_the_old_scripts_are_gone(
    gateway, stack
):
    """Distributed 2026.6 no longer brings ``dask-scheduler`` and ``dask-worker``."""
    assert shutil.which("dask-scheduler", path=Path(sys.executable).parent) is None

    async with await gateway.new_cluster() as cluster:
        await cluster.scale(1)
        await eventually(
            lambda: _statuses(stack, cluster.name) == ["Running"], within=90
        )


async def test_w9_requests_while_a_scheduler_hangs_are_kept_and_kill_nothing(
    gateway, stack
):
    """Three failed calls to a scheduler end the peer's cluster, data and all."""
    async with await gateway.new_cluster() as cluster:
        (scheduler,) = [
            p for p in stack.jobs() if "distributed.cli.dask_scheduler" in p.cmdline()
        ]
        scheduler.suspend()
        try:
            for wanted in (1, 0, 1, 0, 1):
                await gateway.scale_cluster(cluster.name, wanted)
        finally:
            scheduler.resume()

        await eventually(
            lambda: _statuses(stack, cluster.name) == ["Running"], within=90
        )
        report = await gateway.get_cluster(cluster.name)
    assert report.status is ClusterStatus.RUNNING


async def test_w22_every_name_that_is_given_out_fits_into_a_server_name(gateway):
    """Python encodes the SNI by IDNA, which allows 63 characters in a label."""
    name = await gateway.submit()
    await gateway.stop_cluster(name)

    assert len(format_sni(name).encode("idna")) <= 63


async def test_w29_a_gateway_that_ends_its_clusters_ends_though_one_resists(tmp_path):
    """The peer waits for its clusters without any limit."""
    extra = """
c.DBBackendBase.stop_clusters_on_shutdown = True
c.Proxy.stop_on_exit = True
c.LocalBackend.sigint_timeout = 1
c.LocalBackend.sigterm_timeout = 1
c.LocalClusterConfig.scheduler_cmd = [
    "sh", "-c", "trap '' INT TERM; while true; do sleep 1; done"
]
"""
    stack = Stack(tmp_path, extra)
    try:
        await asyncio.to_thread(stack.start)
        async with connect(stack) as gateway:
            await gateway.submit()
        await eventually(
            lambda: any("trap" in " ".join(p.cmdline()) for p in stack.jobs())
        )

        assert await asyncio.to_thread(stack.terminate, 90) == 0

        await eventually(lambda: not stack.processes())
    finally:
        await asyncio.to_thread(stack.destroy)


async def test_a_client_without_a_password_is_told_to_authenticate(stack):
    async with Gateway(stack.address, auth=BasicAuth("", ""), asynchronous=True) as it:
        with pytest.raises(Exception, match="401"):
            await it.list_clusters()
    async with connect(stack) as gateway:
        assert await gateway.list_clusters() == []


def _statuses(stack: Stack, name: str) -> list[str]:
    found = stack.get(f"/api/v1/clusters/{name}/workers")
    assert isinstance(found, dict)
    live = {"Starting", "Running", "Draining"}
    return [w["status"] for w in found["workers"] if w["status"] in live]
