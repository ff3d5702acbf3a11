"""Rows of `users.md`, A4: how many workers there are, as far as a controller decides.

What a scheduler decides is tested with real ones, in ``integration/scheduler_plugin``.
"""

from typing import Any

import pytest

from tests.support.audit import AuditLog
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import CREATING, Fate
from tests.support.settling import (
    WITHIN,
    answers,
    decide,
    has_pods,
    has_workers,
    runs,
    says,
    tells,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


async def test_row_42_a_lower_target_takes_those_that_start_and_no_busy_one(
    site: Site, kubelet: StandInKubelet
) -> None:
    slow = {f"busy-worker-{n}": Fate(hold=CREATING) for n in range(1, 12)}
    kubelet.decide = decide(slow)
    adapt(site, "busy", maximum=30)
    aim(site, "busy", 12)
    await answers(site, "busy")
    await has_pods(site, "busy", 12)
    await eventually(
        lambda: site.status("busy")["workers"]["ready"] == 1, within=WITHIN
    )
    busy = uids(site, "busy")["busy-worker-0"]

    aim(site, "busy", 5)
    await has_pods(site, "busy", 5)
    aim(site, "busy", 0)
    await has_pods(site, "busy", 1)

    assert uids(site, "busy") == {"busy-worker-0": busy}


async def test_row_43_a_retired_name_never_comes_back(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    site.make_cluster("retired", replicas=2)
    await runs(site, "retired", 2)
    mark = audit.mark()

    site.scale("retired", 1)
    await says(site, "retired", "WorkersReady", "Draining")
    kubelet.end(site.targets[0], "retired-worker-0", 0)
    await has_workers(site, "retired", 1)
    site.scale("retired", 3)
    await has_workers(site, "retired", 3)

    assert site.workers("retired") == [f"retired-worker-{n}" for n in (1, 2, 3)]
    created = created_workers(audit, mark, site, "retired")
    assert created == ["retired-worker-2", "retired-worker-3"]


async def test_row_44_without_the_scheduler_no_running_worker_is_taken(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    site.make_cluster("still", replicas=3)
    await runs(site, "still", 3)
    mark = audit.mark()

    site.scale("still", 1)
    await says(site, "still", "WorkersReady", "Draining", "3 of 1 workers")
    untouched = audit.since(mark, user=site.account.user, verb="delete")
    names = site.workers("still")
    for name in names[:2]:
        kubelet.end(site.targets[0], name, 0)
    await has_workers(site, "still", 1)

    assert [r.name for r in untouched if r.name.startswith("still")] == []
    assert names == [f"still-worker-{n}" for n in range(3)]


async def test_row_45_bursts_make_what_they_need_and_end_at_none(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    mark, bursts = audit.mark(), 10
    kubelet.decide = decide({"bursts-worker-": Fate(hold=CREATING)})
    adapt(site, "bursts", maximum=4)
    await answers(site, "bursts")

    for _ in range(bursts):
        aim(site, "bursts", 4)
        await has_pods(site, "bursts", 4)
        aim(site, "bursts", 0)
        await has_pods(site, "bursts", 0)

    assert len(created_workers(audit, mark, site, "bursts")) == 4 * bursts


async def test_row_46_no_target_goes_beyond_the_clusters_cap(
    site: Site, audit: AuditLog
) -> None:
    """A user of dask-gateway had 8,766 pods by one call of `adapt()`."""
    mark = audit.mark()
    adapt(site, "capped", maximum=10_000, limits={"maxWorkers": 2})
    aim(site, "capped", 8766)

    await runs(site, "capped", 2)

    assert site.status("capped")["workers"]["wanted"] == 2
    assert len(created_workers(audit, mark, site, "capped")) == 2


async def test_row_50_a_target_of_an_earlier_adapt_counts_for_nothing(
    site: Site, audit: AuditLog
) -> None:
    mark = audit.mark()
    adapt(site, "twice", maximum=16, ident="first")
    aim(site, "twice", 2, ident="first")
    await runs(site, "twice", 2)
    before = uids(site, "twice")

    second = {"id": "second", "minimum": 0, "maximum": 3}
    site.api.patch(site.path("twice"), {"spec": {"workers": {"adaptive": second}}})
    aim(site, "twice", 16, ident="first")
    aim(site, "twice", 3, ident="second")
    await has_workers(site, "twice", 3)
    aim(site, "twice", 16, ident="first")
    generation = site.cluster("twice")["metadata"]["generation"]
    await eventually(
        lambda: site.status("twice")["observedGeneration"] == generation, within=WITHIN
    )

    assert uids(site, "twice").items() >= before.items()
    assert len(created_workers(audit, mark, site, "twice")) == 3


async def test_row_51_a_scale_right_after_the_create_is_exact(
    site: Site, audit: AuditLog
) -> None:
    mark, names = audit.mark(), [f"at-once-{n}" for n in range(8)]

    for name in names:
        site.make_cluster(name)
        site.scale(name, 2)
    for name in names:
        await runs(site, name, 2)

    want = [f"{name}-worker-{n}" for name in names for n in (0, 1)]
    assert sorted(created_workers(audit, mark, site, "at-once")) == sorted(want)


async def test_row_54_a_preempted_worker_is_replaced_and_is_no_crash(
    site: Site, kubelet: StandInKubelet
) -> None:
    site.make_cluster("spot", replicas=2)
    await runs(site, "spot", 2)

    kubelet.preempt(site.targets[0], "spot-worker-0")

    await tells(site, "spot", "WorkerLost", "preempted")
    await has_workers(site, "spot", 2)
    assert site.workers("spot") == ["spot-worker-1", "spot-worker-2"]
    assert site.status("spot")["workers"].get("failures", 0) == 0


async def test_row_56_a_minimum_is_kept_when_workers_die(
    site: Site, kubelet: StandInKubelet
) -> None:
    adapt(site, "least", minimum=3, maximum=9)
    await runs(site, "least", 3)

    for name in site.workers("least")[:2]:
        kubelet.end(site.targets[0], name, 1)

    want = [f"least-worker-{n}" for n in (2, 3, 4)]
    await eventually(lambda: site.workers("least") == want, within=WITHIN)
    await has_workers(site, "least", 3)


def adapt(
    site: Site,
    name: str,
    *,
    minimum: int = 0,
    maximum: int,
    ident: str = "a",
    **spec: Any,
) -> None:
    """Make a cluster whose size is its scheduler's choice."""
    bounds = {"id": ident, "minimum": minimum, "maximum": maximum}
    site.make_cluster(name, workers={"adaptive": bounds}, **spec)


def aim(site: Site, name: str, target: int, *, ident: str = "a") -> None:
    """Say what the API server does when the scheduler calls with its target."""
    status = {"adaptiveTarget": {"id": ident, "target": target}}
    site.api.patch(site.path(name, "status"), {"status": status})


def uids(site: Site, name: str) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in site.pods(name)
        if "-worker-" in pod["metadata"]["name"]
    }


def created_workers(audit: AuditLog, mark: Any, site: Site, name: str) -> list[str]:
    asked = audit.since(
        mark, user=site.account.user, verb="create", resource="pods", code=201
    )
    return [r.name for r in asked if r.name.startswith(name) and "-worker-" in r.name]
