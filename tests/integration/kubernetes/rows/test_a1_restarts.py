"""Rows of `users.md`, A1, and W faults: controllers that come and go, and clocks."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.controller.settings import ControllerSettings
from gateway.aio.clock import SystemClock
from tests.support.audit import AuditLog, count
from tests.support.controllers import Site
from tests.support.controlling import BRIEF, build_settings, controlling
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import CREATING, UNSCHEDULABLE, Fate
from tests.support.settling import (
    WITHIN,
    decide,
    has_nothing_left,
    has_pods,
    has_workers,
    reaches,
    runs,
    says,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


class ShiftedClock(SystemClock):
    """The clock of a machine whose owner set it wrong, or does so now."""

    def __init__(self, hours: float) -> None:
        self.hours = hours

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


@pytest.fixture
async def connection(idle_site: Site) -> Connection:
    return await load_connection(str(idle_site.account.kubeconfig))


@pytest.fixture
def settings(idle_site: Site) -> ControllerSettings:
    return build_settings(idle_site, lease_times=BRIEF)


async def test_row_20_after_an_absence_every_cluster_has_its_whole_time_again(
    idle_site: Site, connection, settings, kubelet: StandInKubelet
) -> None:
    """One came up meanwhile, one still starts, and one was busy all the time."""
    site = idle_site
    kubelet.decide = decide(
        {"dask-scheduler-came": Fate(hold=CREATING)}
        | {"dask-scheduler-comes": Fate(hold=CREATING)}
    )
    short = {"schedulerStartTimeoutSeconds": 4}
    async with controlling(connection, settings, is_killed=True):
        site.make_cluster("busy", replicas=2)
        await runs(site, "busy", 2)
        site.make_cluster("came", lifetimes=short)
        site.make_cluster("comes", lifetimes=short)
        for name in ("came", "comes"):
            await says(site, name, "SchedulerReady", "Starting")

    kubelet.run(site.targets[0], "dask-scheduler-came")
    site.sync("came")
    deadline = datetime.fromisoformat(site.status("comes")["startTime"])
    deadline += timedelta(seconds=5)
    clock = SystemClock()
    await eventually(lambda: clock.now() > deadline, within=WITHIN)

    async with controlling(connection, settings):
        await reaches(site, "came", "Running")
        kubelet.run(site.targets[0], "dask-scheduler-comes")
        site.sync("comes")
        await reaches(site, "comes", "Running")
        await has_workers(site, "busy", 2)
        assert site.workers("busy") == ["busy-worker-0", "busy-worker-1"]


async def test_w2_unschedulable_workers_are_counted_and_go_when_not_wanted(
    idle_site: Site, connection, settings, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    """The peer made 13 pods for 4, over a restart, and never took away any."""
    site = idle_site
    kubelet.decide = decide({"unseen-worker-": Fate(hold=UNSCHEDULABLE)})
    mark = audit.mark()
    async with controlling(connection, settings, is_killed=True):
        site.make_cluster("unseen", replicas=5)
        await eventually(lambda: site.pods("unseen"), within=WITHIN)
        site.sync("unseen")
        await says(site, "unseen", "WorkersReady", "Unschedulable", "0 of 5 workers")
        await has_pods(site, "unseen", 5)
    async with controlling(connection, settings):
        site.scale("unseen", 4)
        await has_pods(site, "unseen", 4)
        site.scale("unseen", 6)
        await has_pods(site, "unseen", 6)
        site.scale("unseen", 0)
        await has_pods(site, "unseen", 0)

    asked = [r for r in audit.since(mark, resource="pods") if "unseen-w" in r.name]
    assert count(r for r in asked if r.verb in ("create", "delete")) == {
        "create pods": 7,
        "delete pods": 7,
    }


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_controller_whose_clock_is_wrong_decides_as_others_do(
    idle_site: Site, connection, settings, kubelet: StandInKubelet, hours: int
) -> None:
    site, name = idle_site, f"wrong-{'early' if hours < 0 else 'late'}"
    kubelet.decide = decide({f"{name}-worker-1": Fate(hold=CREATING)})
    clock = ShiftedClock(hours)
    limits = {"workerStartTimeoutSeconds": 600, "maxLifetimeSeconds": 1200}
    async with controlling(connection, settings, clock=clock):
        site.make_cluster(name, replicas=2, lifetimes=limits, retentionSeconds=1200)
        await eventually(lambda: site.pods(name), within=WITHIN)
        site.sync(name)
        await reaches(site, name, "Running")
        await has_pods(site, name, 2)
        clock.hours = -hours
        kubelet.run(site.targets[0], f"{name}-worker-1")
        await has_workers(site, name, 2)
        status = site.status(name)
        site.api.patch(site.path(name), {"spec": {"active": False}})
        ended = await reaches(site, name, "Stopped")
        await has_nothing_left(site, name)

    created = site.cluster(name)["metadata"]["creationTimestamp"]
    begun, made, over = (
        datetime.fromisoformat(text)
        for text in (status["startTime"], created, ended["completionTime"])
    )
    assert abs((begun - made).total_seconds()) < 60
    assert timedelta(seconds=-3) < over - begun < timedelta(minutes=5)
    assert status["workers"].get("failures", 0) == 0


async def test_row_11_a_route_that_is_not_there_is_told(
    idle_site: Site, connection, settings
) -> None:
    """The last step of a start: nothing listens where the proxy should."""
    site, settings = idle_site, replace(settings, proof_address="127.0.0.1:1")
    async with controlling(connection, settings):
        lifetimes = {"schedulerStartTimeoutSeconds": 5}
        site.make_cluster("unrouted", lifetimes=lifetimes)
        await eventually(lambda: site.pods("unrouted"), within=WITHIN)
        site.sync("unrouted")
        await says(site, "unrouted", "RoutesReady", "WaitingForRoute")

        status = await reaches(site, "unrouted", "Failed")

    assert status["reason"] == "RouteFailed"
    assert "does not answer at the public port" in status["message"]
