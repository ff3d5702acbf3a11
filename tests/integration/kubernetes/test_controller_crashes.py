"""Cut a controller off after each of its writes; the next one comes to the same end."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.controller.settings import ControllerSettings
from tests.harness.control_plane import ControlPlane
from tests.support.controllers import Site
from tests.support.controlling import BRIEF, build_settings, controlling
from tests.support.eventually import eventually
from tests.support.fault_proxy import DropAnswer, FaultProxy, Refuse

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]

WITHIN = 60.0
WORKERS = 3
# One life has about so many writes: five children, the set, three pods, statuses.
MOST_WRITES = 14


@pytest.fixture
def site(plane: ControlPlane, make_namespace, tmp_path) -> Site:
    return Site(plane, make_namespace("gateway"), (make_namespace("team"),), tmp_path)


@pytest.fixture
async def connection(site: Site) -> Connection:
    return await load_connection(str(site.account.kubeconfig))


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(plane) as started:
        yield started


@pytest.fixture
def settings(site: Site) -> ControllerSettings:
    # One after the other, and none of them lets go of its lease.
    return build_settings(site, lease_times=BRIEF)


class Cut:
    """Loses the answer to write number ``after``, and lets nothing through then.

    Parameters
    ----------
    after
        From 0.
    """

    def __init__(self, after: int) -> None:
        self.after = after
        self.writes = 0
        self.is_done = False

    def __call__(self, request: web.Request) -> DropAnswer | Refuse | None:
        if self.is_done:
            return Refuse(503)
        if request.method == "GET" or "leases" in request.path:
            return None
        if "/events" in request.path:
            return None
        self.writes += 1
        if self.writes <= self.after:
            return None
        self.is_done = True
        return DropAnswer()


async def ends_well(site: Site, name: str) -> None:
    """Wait for the one end that all lives have."""
    want = [f"{name}-worker-{n}" for n in range(WORKERS)]

    def check() -> bool:
        if site.pods(name) and "firstSyncTime" not in site.status(name):
            site.sync(name)
        status = site.status(name)
        workers = status.get("workers", {})
        assert status.get("phase") == "Running", status
        assert workers.get("members") == f"0-{WORKERS - 1}", status
        assert workers.get("ready") == WORKERS, status
        assert site.workers(name) == want
        return True

    await eventually(check, within=WITHIN)


@pytest.mark.usefixtures("kubelet")
async def test_after_any_lost_write_the_next_controller_comes_to_the_same_end(
    site: Site, connection, settings, proxy: FaultProxy
) -> None:
    lives = 0
    for after in range(MOST_WRITES):
        name, cut = f"c{after}", Cut(after)
        proxy.rule = cut
        site.make_cluster(name, replicas=WORKERS)
        async with controlling(connection, settings, proxy.url, is_killed=True):

            def is_over(name=name, cut=cut) -> bool:
                if site.pods(name) and "firstSyncTime" not in site.status(name):
                    site.sync(name)
                ready = site.status(name).get("workers", {}).get("ready", 0)
                return cut.is_done or ready == WORKERS

            await eventually(is_over, within=WITHIN)
        lives += cut.is_done

        async with controlling(connection, settings, is_killed=True):
            await ends_well(site, name)

    assert lives >= MOST_WRITES - 4


@pytest.mark.usefixtures("kubelet")
async def test_after_any_lost_write_of_a_stop_nothing_is_left_over(
    site: Site, connection, settings, proxy: FaultProxy
) -> None:
    for after in range(4):
        name, cut = f"s{after}", Cut(after)
        site.make_cluster(name, replicas=WORKERS)
        async with controlling(connection, settings, is_killed=True):
            await ends_well(site, name)
        proxy.rule = cut
        site.api.patch(site.path(name), {"spec": {"active": False}})

        async with controlling(connection, settings, proxy.url, is_killed=True):
            await eventually(
                lambda name=name, cut=cut: (
                    cut.is_done or site.status(name)["phase"] == "Stopped"
                ),
                within=WITHIN,
            )
        async with controlling(connection, settings, is_killed=True):
            await eventually(
                lambda name=name: (
                    site.status(name)["phase"] == "Stopped" and site.pods(name) == []
                ),
                within=WITHIN,
            )


@pytest.mark.usefixtures("kubelet")
async def test_a_server_that_refuses_every_third_call_is_coped_with(
    site: Site, connection, settings, proxy: FaultProxy
) -> None:
    calls = iter(range(10**6))

    def refuse(request: web.Request) -> Refuse | None:
        if "watch" in request.path_qs or "leases" in request.path:
            return None
        return (
            Refuse(429, "busy", {"Retry-After": "1"}) if next(calls) % 3 == 0 else None
        )

    proxy.rule = refuse
    site.make_cluster("c1", replicas=WORKERS)
    async with controlling(connection, settings, proxy.url, is_killed=True):
        await ends_well(site, "c1")
