"""Rows of `users.md`, A2 and A3: what an owner is told, as far as the controller does.

Last log lines (rows 24 and 25) need a kubelet: see ``test_failures.py``.
"""

import pytest

from tests.support.audit import AuditLog
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import IMAGE_MISSING, UNSCHEDULABLE, Fate
from tests.support.settling import (
    WITHIN,
    answers,
    decide,
    has_nothing_left,
    reaches,
    runs,
    says,
    tells,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# Reasons that stand in the annotation of a stop, and what the status makes of them.
STOPS = {
    "IdleTimeout": "IdleTimeout",
    "StoppedByAdmin": "StoppedByAdmin",
    "nonsense": "StoppedByUser",
}


async def test_rows_26_and_27_an_image_that_does_not_come_is_told_and_ends(
    site: Site, kubelet: StandInKubelet
) -> None:
    kubelet.decide = decide({"dask-scheduler-no-image": Fate(hold=IMAGE_MISSING)})
    # Much shorter than the ten minutes that a start may take else.
    site.make_cluster("no-image", lifetimes={"imagePullTimeoutSeconds": 4})

    await says(
        site, "no-image", "SchedulerReady", "ImagePullFailed", "test.local/nope:1"
    )
    assert site.status("no-image")["phase"] == "Pending"
    await tells(site, "no-image", "ImagePullFailed", "check the image's name")

    status = await reaches(site, "no-image", "Failed")
    assert status["reason"] == "StartDeadlinePassed"
    assert "cannot pull its image" in status["message"]
    await has_nothing_left(site, "no-image")


async def test_row_28_workers_that_crash_at_once_end_the_cluster(
    site: Site, kubelet: StandInKubelet, audit: AuditLog
) -> None:
    kubelet.decide = decide({"crashes-worker-": Fate(exit_code=2)})
    mark = audit.mark()
    site.make_cluster("crashes", 2, lifetimes={"workerStartFailureLimit": 4})
    await eventually(lambda: site.pods("crashes"), within=WITHIN)
    site.sync("crashes")

    status = await reaches(site, "crashes", "Failed")
    await has_nothing_left(site, "crashes")

    asked = audit.since(mark, user=site.account.user, verb="create", resource="pods")
    made = [r.name for r in asked if r.name.startswith("crashes-worker-")]
    assert status["reason"] == "WorkersCrashing"
    assert "exit status 2" in status["message"]
    assert 4 <= len(made) <= 6


async def test_row_30_a_request_above_its_limit_is_refused_with_the_servers_words(
    site: Site,
) -> None:
    resources = {"requests": {"memory": "4G"}, "limits": {"memory": "1250M"}}
    container = {"name": "dask-scheduler", "resources": resources}
    template = {"spec": {"containers": [container]}}

    site.make_cluster("greedier", scheduler={"template": template})

    status = await reaches(site, "greedier", "Failed")
    assert status["reason"] == "StartFailed"
    assert "must be less than or equal to memory limit" in status["message"]
    await has_nothing_left(site, "greedier")


async def test_row_32_of_workers_that_lack_it_is_told_how_many_and_why(
    site: Site, kubelet: StandInKubelet
) -> None:
    target = site.targets[0]
    others = len(site.api.items(f"/api/v1/namespaces/{target}/pods"))
    quotas = f"/api/v1/namespaces/{target}/resourcequotas"
    hard = {"pods": str(others + 1 + 8)}
    site.api.post(quotas, {"metadata": {"name": "eight"}, "spec": {"hard": hard}})
    path = f"{quotas}/eight"
    await eventually(lambda: "hard" in site.api.get(path)["status"], within=WITHIN)
    # Which of the last three gets into the quota is chance.
    kubelet.decide = decide(
        {f"short-worker-{n}": Fate(hold=UNSCHEDULABLE) for n in (3, 4, 5)}
        | {f"short-worker-{n}": Fate(hold=IMAGE_MISSING) for n in (6, 7, 8, 9)}
    )

    site.make_cluster("short", replicas=10)
    await answers(site, "short")

    told = await says(
        site,
        "short",
        "WorkersReady",
        "QuotaExceeded",
        "3 of 10 workers",
        "eight",
        "3 Unschedulable (fits on no node: 0/1 nodes are available",
        "2 ImagePullFailed (cannot pull its image",
    )
    workers = site.status("short")["workers"]
    site.api.delete(path)

    assert told["status"] == "False"
    assert (workers["wanted"], workers["ready"], workers["starting"]) == (10, 3, 5)


async def test_row_34_each_stop_says_who_and_why(site: Site) -> None:
    for number, said in enumerate(STOPS):
        site.make_cluster(f"stops-{number}")
        annotations = {
            "daskfleet.io/stop-reason": said,
            "daskfleet.io/stop-message": f"because of {said}",
        }
        stop = {"metadata": {"annotations": annotations}, "spec": {"active": False}}
        site.api.patch(site.path(f"stops-{number}"), stop)

    for number, (said, want) in enumerate(STOPS.items()):
        status = await reaches(site, f"stops-{number}", "Stopped")
        assert (status["stopReason"], status["reason"]) == (want, want)
        assert status["stopMessage"] == f"because of {said}"
        await tells(site, f"stops-{number}", "Stopped", f"because of {said}")


async def test_row_40_a_lifetime_ends_a_busy_cluster(site: Site) -> None:
    site.make_cluster("mortal", replicas=1)
    await runs(site, "mortal", 1)
    # Only now, since nobody knows how long a start takes on a busy machine.
    lifetimes = {"maxLifetimeSeconds": 1}
    site.api.patch(site.path("mortal"), {"spec": {"lifetimes": lifetimes}})

    status = await reaches(site, "mortal", "Stopped")

    assert status["stopReason"] == "MaxLifetime"
    assert "ran for 1 s" in status["stopMessage"]
    await has_nothing_left(site, "mortal")


async def test_a_namespace_that_is_deleted_takes_its_clusters_and_no_others(
    site: Site, make_namespace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    doomed, spared = make_namespace("doomed"), make_namespace("spared")
    other = Site(
        site.plane,
        make_namespace("gateway"),
        (doomed, spared),
        tmp_path_factory.mktemp("two"),
    )
    controller = other.start_controller()
    try:
        for number, target in enumerate(other.targets):
            other.make_cluster(f"in-{number}", 1, targetNamespace=target)
            await eventually(
                lambda n=number, t=target: other.pods(f"in-{n}", t), within=WITHIN
            )
            other.sync(f"in-{number}")
            await reaches(other, f"in-{number}", "Running")

        other.api.delete(f"/api/v1/namespaces/{doomed}")

        status = await reaches(other, "in-0", "Failed")
        assert status["reason"] in ("AnchorDeleted", "SchedulerLost")
        await eventually(
            lambda: other.api.find(f"/api/v1/namespaces/{doomed}") is None,
            within=WITHIN,
        )
        # A cluster that comes too late is told; the one beside it goes on.
        other.make_cluster("late", targetNamespace=doomed)
        await says(other, "late", "CredentialsReady", doomed)
        other.scale("in-1", 2)
        await eventually(
            lambda: other.status("in-1")["workers"]["ready"] == 2, within=WITHIN
        )
        assert controller.is_running
        assert '"level":"error"' not in controller.read_log()
    finally:
        other.close()
