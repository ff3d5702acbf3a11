"""Rows of `users.md`, A1: what becomes of a cluster and its pods."""

from datetime import datetime
from typing import Any

import pytest

from gateway.aio.clock import SystemClock
from tests.support.audit import AuditLog, count
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import (
    CREATING,
    IMAGE_MISSING,
    SECRET_MISSING,
    UNSCHEDULABLE,
    Fate,
)
from tests.support.settling import (
    WITHIN,
    answers,
    decide,
    has_nothing_left,
    has_pods,
    reaches,
    runs,
    says,
    tells,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# How a start can stand still: what becomes of the scheduler's pod, and the words
# that have to tell it.
STEPS = {
    "node": (Fate(hold=UNSCHEDULABLE), "fits on no node: 0/1 nodes are available"),
    "image": (Fate(hold=IMAGE_MISSING), "cannot pull its image"),
    "config": (Fate(hold=SECRET_MISSING), 'secret "nope" not found'),
    "container": (Fate(hold=CREATING), "waits for its image and containers"),
    "probe": (Fate(is_ready=False), "does not answer at :8787/health"),
    "call": (Fate(), "has not called the gateway"),
}


async def test_row_01_and_w1_exactly_the_surplus_goes_and_running_workers_stay(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    """Ten of fourteen are pending; the peer deleted nine of ten for one too many."""
    held = {f"few-worker-{n}": Fate(hold=CREATING) for n in range(4, 14)}
    kubelet.decide = lambda pod: held.get(pod["metadata"]["name"], Fate())
    site.make_cluster("few", replicas=14)
    await answers(site, "few")
    await has_pods(site, "few", 14)
    await eventually(lambda: site.status("few")["workers"]["ready"] == 4, within=WITHIN)
    mark = audit.mark()

    site.scale("few", 13)
    await has_pods(site, "few", 13)
    first = writes_of_pods(audit, mark, site)
    site.scale("few", 2)
    await has_pods(site, "few", 4)

    assert first == {"delete pods": 1}
    assert site.workers("few") == [f"few-worker-{n}" for n in range(4)]
    assert writes_of_pods(audit, mark, site) == {"delete pods": 10}
    # The four are the scheduler's to retire, which says so.
    await says(site, "few", "WorkersReady", "Draining", "4 of 2 workers")


async def test_row_09_every_accepted_cluster_has_a_status_within_two_seconds(
    site: Site, audit: AuditLog
) -> None:
    site.make_cluster("warm")
    await eventually(lambda: site.status("warm").get("conditions"), within=WITHIN)

    # The machine may be busy with something else for a moment, but not each time.
    waits = [await wait_for_burst(site, audit, f"burst-{n}") for n in range(3)]

    assert min(burst[-2] for burst in waits) < 2, waits


async def test_row_10_workers_that_never_start_are_replaced_but_not_without_end(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    good = {"stuck-worker-0", "stuck-worker-1", "dask-scheduler-stuck"}
    kubelet.decide = lambda pod: (
        Fate() if pod["metadata"]["name"] in good else Fate(hold=CREATING)
    )
    mark = audit.mark()
    site.make_cluster("stuck", 4, lifetimes={"workerStartTimeoutSeconds": 1})
    await answers(site, "stuck")
    connect(site, "stuck")

    def has_given_up_at_times() -> bool:
        return bool(site.status("stuck")["workers"].get("failures", 0) >= 6)

    await eventually(has_given_up_at_times, within=WITHIN)
    await says(site, "stuck", "WorkersReady", "WorkersFailing", "2 of 4 workers")
    await tells(site, "stuck", "WorkerFailed", "did not start in time")

    failures = site.status("stuck")["workers"]["failures"]
    created = [
        request
        for request in audit.since(mark, verb="create", resource="pods")
        if request.name.startswith("stuck-worker-")
    ]
    assert len(created) <= 4 + failures
    assert site.status("stuck")["phase"] == "Running"


async def test_rows_11_and_12_a_start_that_stands_still_is_told_by_its_step(
    site: Site, kubelet: StandInKubelet
) -> None:
    kubelet.decide = decide(
        {f"dask-scheduler-at-{step}": fate for step, (fate, _) in STEPS.items()}
    )
    limits = {"schedulerStartTimeoutSeconds": 6, "imagePullTimeoutSeconds": 5}

    for step in STEPS:
        site.make_cluster(f"at-{step}", lifetimes=limits)
    for step, (_, words) in STEPS.items():
        await eventually(
            lambda s=step, w=words: w in site.status(f"at-{s}").get("message", ""),
            within=WITHIN,
        )

    for step, (_, words) in STEPS.items():
        status = await reaches(site, f"at-{step}", "Failed")
        assert status["reason"] == "StartDeadlinePassed"
        assert "did not start within" in status["message"]
        assert words in status["message"]
        await has_nothing_left(site, f"at-{step}")


async def test_row_13_a_scheduler_that_is_deleted_fails_the_cluster(site: Site) -> None:
    site.make_cluster("gone", replicas=2)
    await runs(site, "gone", 2)

    site.api.delete(f"/api/v1/namespaces/{site.targets[0]}/pods/dask-scheduler-gone")

    status = await reaches(site, "gone", "Failed")
    assert status["reason"] == "SchedulerLost"
    assert "create the cluster again" in status["message"]
    await has_nothing_left(site, "gone")


async def test_rows_13_and_14_a_scheduler_out_of_memory_is_told_with_its_limit(
    site: Site, kubelet: StandInKubelet
) -> None:
    container = {"name": "dask-scheduler", "resources": {"limits": {"memory": "3Gi"}}}
    template = {"spec": {"containers": [container]}}
    site.make_cluster("greedy", replicas=2, scheduler={"template": template})
    await runs(site, "greedy", 2)

    kubelet.end(site.targets[0], "dask-scheduler-greedy", 137, reason="OOMKilled")

    status = await reaches(site, "greedy", "Failed")
    assert status["reason"] == "SchedulerEnded"
    assert "was killed: out of memory" in status["message"]
    assert "its limit is 3Gi" in status["message"]
    await has_nothing_left(site, "greedy")


async def test_row_17_a_pod_that_will_not_go_keeps_no_cluster_from_its_end(
    site: Site, kubelet: StandInKubelet
) -> None:
    kubelet.decide = decide({"clings-worker-1": Fate(stop_s=4)})
    site.make_cluster("clings", replicas=2)
    await runs(site, "clings", 2)

    site.api.patch(site.path("clings"), {"spec": {"active": False}})

    await reaches(site, "clings", "Stopped")
    assert [p["metadata"]["name"] for p in site.pods("clings")] != []
    await has_nothing_left(site, "clings")


async def test_row_19_a_cluster_made_anew_again_and_again_is_deleted_once_each(
    site: Site, audit: AuditLog
) -> None:
    mark, uids = audit.mark(), set()
    for _ in range(4):
        uids.add(site.make_cluster("again", replicas=1)["metadata"]["uid"])
        await runs(site, "again", 1)
        site.api.patch(site.path("again"), {"spec": {"active": False}})
        await reaches(site, "again", "Stopped")
        await has_nothing_left(site, "again")
        site.api.delete(site.path("again"))

    deleted = [
        f"{request.resource} {request.name}"
        for request in audit.since(mark, user=site.account.user, verb="delete")
        if "again" in request.name
    ]
    assert len(uids) == 4
    assert deleted == ["services dask-again"] * 4


async def wait_for_burst(site: Site, audit: AuditLog, name: str) -> list[float]:
    """Return how long each of ten clusters had no status, the longest last."""
    mark, made = audit.mark(), {}
    for number in range(10):
        site.make_cluster(f"{name}-{number}")
        made[f"{name}-{number}"] = SystemClock().now()
    for one in made:
        await eventually(lambda n=one: site.status(n).get("conditions"), within=WITHIN)
    told = audit.since(mark, user=site.account.user, resource="daskclusters/status")
    first = {r.name: datetime.fromisoformat(r.time) for r in reversed(told)}
    return sorted((first[n] - time).total_seconds() for n, time in made.items())


def connect(site: Site, name: str) -> None:
    """Say what the API server does once a worker was connected."""
    status = {"firstWorkerTime": "2026-01-01T00:00:00Z"}
    site.api.patch(site.path(name, "status"), {"status": status})


def writes_of_pods(audit: AuditLog, mark: Any, site: Site) -> dict[str, int]:
    found = audit.since(mark, user=site.account.user, resource="pods")
    return dict(count(r for r in found if r.verb in ("create", "delete")))
