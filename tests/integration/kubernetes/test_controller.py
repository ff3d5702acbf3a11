"""The real controller process on a real API server, with the chart's roles alone."""

import json
import signal
import ssl
from base64 import b64decode
from collections.abc import Iterator

import pytest

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.controller.telling import EventTeller
from backends.kubernetes.crd.parsing import parse_dask_cluster
from gateway.domain.cluster import ClusterEvent, EventType
from tests.harness.control_plane import ControlPlane
from tests.support.audit import find_refused
from tests.support.controllers import ANCHOR, Site
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import RUNS
from tests.support.settling import (
    WITHIN,
    ask,
    conditions,
    has_nothing_left,
    has_workers,
    reaches,
    runs,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def site(plane: ControlPlane, make_namespace, tmp_path) -> Iterator[Site]:
    home, target = make_namespace("gateway"), make_namespace("team")
    made = Site(plane, home, (target,), tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _fates(kubelet: StandInKubelet) -> Iterator[None]:
    yield
    kubelet.decide = lambda _: RUNS


async def test_a_cluster_made_by_kubectl_alone_comes_to_run(site: Site, audit) -> None:
    mark = audit.mark()
    site.start_controller()
    made = site.make_cluster("c1", replicas=2)

    await runs(site, "c1", 2)
    status = site.status("c1")

    uid, target = made["metadata"]["uid"], site.targets[0]
    base = f"/api/v1/namespaces/{target}"
    anchor = site.api.get(f"{base}/services/dask-c1")
    mirror = site.api.get(f"{base}/secrets/dask-{uid}-1")
    master = site.api.get(f"/api/v1/namespaces/{site.home}/secrets/dask-master-{uid}")
    scheduler = site.api.get(f"{base}/pods/dask-scheduler-c1")
    assert status["workers"]["members"] == "0-1"
    assert set(conditions(status).values()) == {"True"}
    assert status["host"] == f"dask-c1.{target}.svc"
    assert [o["name"] for o in anchor["metadata"]["ownerReferences"]] == [ANCHOR]
    assert mirror["immutable"] is True
    owners = (
        mirror["metadata"]["ownerReferences"] + scheduler["metadata"]["ownerReferences"]
    )
    assert {o["uid"] for o in owners} == {anchor["metadata"]["uid"]}
    assert master["metadata"]["ownerReferences"][0]["uid"] == uid
    assert mirror["data"]["ca.crt"] == master["data"]["ca.crt"]
    assert "client.pem" not in mirror["data"]
    assert "ca.key" not in mirror["data"]
    ssl.create_default_context(cadata=b64decode(master["data"]["ca.crt"]).decode())
    assert find_refused(audit.since(mark, user=site.account.user)) == []


async def test_scaling_up_and_down_is_exact(site: Site, kubelet) -> None:
    site.start_controller()
    site.make_cluster("c1", replicas=3)
    await runs(site, "c1", 3)

    site.scale("c1", 8)
    await has_workers(site, "c1", 8)
    site.scale("c1", 2)
    # Running workers are the scheduler's to retire: six of them end by themselves.
    target = site.targets[0]
    for name in site.workers("c1")[:6]:
        kubelet.end(target, name, 0)
    await has_workers(site, "c1", 2)

    assert site.workers("c1") == ["c1-worker-6", "c1-worker-7"]
    assert site.status("c1")["workers"]["members"] == "6-7"


async def test_row_29_a_quota_is_told_and_what_fits_runs(site: Site) -> None:
    target = site.targets[0]
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "4"}}}
    site.api.post(f"/api/v1/namespaces/{target}/resourcequotas", quota)
    path = f"/api/v1/namespaces/{target}/resourcequotas/few"
    await eventually(lambda: "hard" in site.api.get(path)["status"], within=WITHIN)
    site.start_controller()
    site.make_cluster("c1", replicas=6)

    await eventually(lambda: site.pods("c1"), within=WITHIN)
    site.sync("c1")

    def is_told() -> bool:
        status = site.status("c1")
        told = {c["type"]: c for c in status.get("conditions", ())}.get("WorkersReady")
        assert told is not None, status
        assert told["reason"] == "QuotaExceeded", told
        assert "3 of 6" in told["message"], told
        assert "few" in told["message"], told
        return True

    await eventually(is_told, within=WITHIN)
    assert len(site.workers("c1")) == 3

    site.api.patch(path, {"spec": {"hard": {"pods": "20"}}})
    await has_workers(site, "c1", 6)


async def test_row_34_a_stop_leaves_nothing_and_says_who(site: Site) -> None:
    site.start_controller()
    site.make_cluster("c1", replicas=2)
    await runs(site, "c1", 2)

    annotations = {
        "daskfleet.io/stop-reason": "StoppedByUser",
        "daskfleet.io/stop-message": "stopped by alice",
    }
    stop = {"metadata": {"annotations": annotations}, "spec": {"active": False}}
    site.api.patch(site.path("c1"), stop)

    status = await reaches(site, "c1", "Stopped")
    await has_nothing_left(site, "c1")
    assert status["stopReason"] == "StoppedByUser"
    assert status["stopMessage"] == "stopped by alice"
    assert status["completionTime"]


async def test_an_ended_cluster_is_removed_when_its_time_has_come(site: Site) -> None:
    site.start_controller()
    site.make_cluster("c1", retentionSeconds=1, active=False)

    await eventually(lambda: site.api.find(site.path("c1")) is None, within=WITHIN)


async def test_a_cluster_deleted_while_no_controller_ran_is_cleared_away(
    site: Site,
) -> None:
    controller = site.start_controller(lease_duration=3)
    site.make_cluster("c1", replicas=1)
    await runs(site, "c1", 1)

    controller.kill()
    site.api.delete(site.path("c1"))
    site.start_controller(lease_duration=3)

    await has_nothing_left(site, "c1")


async def test_a_cluster_made_anew_under_its_old_name_is_another(site: Site) -> None:
    site.start_controller()
    first = site.make_cluster("c1", replicas=1)
    await runs(site, "c1", 1)
    old = site.api.get(f"/api/v1/namespaces/{site.targets[0]}/pods/dask-scheduler-c1")

    site.api.delete(site.path("c1"))
    second = site.make_cluster("c1", replicas=1)

    def is_new() -> bool:
        place = f"/api/v1/namespaces/{site.targets[0]}/pods/dask-scheduler-c1"
        found = site.api.find(place)
        assert found is not None
        assert found["metadata"]["uid"] != old["metadata"]["uid"]
        return True

    await eventually(is_new, within=WITHIN)
    await runs(site, "c1", 1)
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_an_anchor_deleted_by_hand_ends_the_cluster(site: Site) -> None:
    site.start_controller()
    site.make_cluster("c1", replicas=1)
    await runs(site, "c1", 1)

    site.api.delete(f"/api/v1/namespaces/{site.targets[0]}/services/dask-c1")

    status = await reaches(site, "c1", "Failed")
    assert status["reason"] == "AnchorDeleted"
    await has_nothing_left(site, "c1")


async def test_a_foreign_object_with_our_name_is_never_touched(site: Site) -> None:
    target = site.targets[0]
    spec = {"clusterIP": "None", "ports": [{"port": 1}], "selector": {"a": "b"}}
    path = f"/api/v1/namespaces/{target}/services"
    foreign = site.api.post(path, {"metadata": {"name": "dask-c1"}, "spec": spec})
    site.start_controller()
    site.make_cluster("c1")

    def is_told() -> bool:
        status = site.status("c1")
        assert "is not the gateway's" in status.get("message", ""), status
        return True

    await eventually(is_told, within=WITHIN)
    found = site.api.get(f"{path}/dask-c1")
    assert (
        found["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
    )


async def test_a_foreign_pod_with_a_workers_name_is_left_and_another_made(
    site: Site,
) -> None:
    path = f"/api/v1/namespaces/{site.targets[0]}/pods"
    image = {"name": "other", "image": "test.local/other:1"}
    foreign = site.api.post(
        path, {"metadata": {"name": "c1-worker-0"}, "spec": {"containers": [image]}}
    )
    site.start_controller()
    site.make_cluster("c1", replicas=1)

    await runs(site, "c1", 1)

    assert site.workers("c1") == ["c1-worker-1"]
    found = site.api.get(f"{path}/c1-worker-0")
    assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]


async def test_what_is_told_again_is_one_event_with_a_count(site: Site) -> None:
    """Also by another controller, which knows nothing of the first one's Events."""
    cluster = parse_dask_cluster(site.make_cluster("c1"))
    event = ClusterEvent(1_800_000_000_000, EventType.WARNING, "Odd", "something")
    client = await KubeClient.connect(str(site.account.kubeconfig))
    try:
        for _ in range(2):
            teller = EventTeller(client)
            teller.tell(cluster, [event])
            await teller.flush()
    finally:
        await client.close()

    (told,) = site.events("c1")
    assert (told["reason"], told["count"]) == ("Odd", 2)


async def test_row_13_a_scheduler_that_ends_fails_its_cluster_with_its_exit_status(
    site: Site, kubelet
) -> None:
    site.start_controller()
    site.make_cluster("c1", replicas=1)
    await runs(site, "c1", 1)

    kubelet.end(site.targets[0], "dask-scheduler-c1", 3)

    status = await reaches(site, "c1", "Failed")
    assert status["reason"] == "SchedulerEnded"
    assert "3" in status["message"]
    await has_nothing_left(site, "c1")


async def test_a_killed_worker_is_replaced(site: Site, kubelet) -> None:
    site.start_controller()
    site.make_cluster("c1", replicas=2)
    await runs(site, "c1", 2)

    kubelet.end(site.targets[0], "c1-worker-0", 137, reason="OOMKilled")

    await eventually(
        lambda: site.workers("c1") == ["c1-worker-1", "c1-worker-2"], within=WITHIN
    )
    reasons = await eventually(
        lambda: [e for e in site.events("c1") if e["reason"] == "WorkerFailed"]
    )
    assert "out of memory" in reasons[0]["message"]


async def test_row_21_a_frozen_leader_does_no_harm_when_it_wakes(site: Site) -> None:
    first = site.start_controller(lease_duration=6)
    site.make_cluster("c1", replicas=2)
    await runs(site, "c1", 2)
    site.start_controller(lease_duration=6)

    first.signal(signal.SIGSTOP)
    site.scale("c1", 4)
    await has_workers(site, "c1", 4)
    first.signal(signal.SIGCONT)
    await eventually(lambda: "lead lost" in first.read_log(), within=WITHIN)
    site.scale("c1", 5)

    await has_workers(site, "c1", 5)
    assert site.workers("c1") == [f"c1-worker-{n}" for n in range(5)]
    assert site.status("c1")["workers"]["epoch"] == 1


async def test_a_controller_killed_again_and_again_comes_to_the_same_end(
    site: Site,
) -> None:
    settings = {"lease_duration": 3}
    controller = site.start_controller(**settings)
    site.make_cluster("c1", replicas=6)
    kills = 0
    while not (pods := site.pods("c1")) or len(pods) < 7:
        mark = len(pods)
        site.api.close()
        await eventually(lambda m=mark: len(site.pods("c1")) != m, within=WITHIN)
        controller.kill()
        kills += 1
        if len(site.pods("c1")) >= 1:
            site.sync("c1")
        controller = site.start_controller(**settings)

    site.sync("c1")
    await runs(site, "c1", 6)

    assert kills > 0
    assert site.workers("c1") == [f"c1-worker-{n}" for n in range(6)]


async def test_probes_and_metrics_tell_how_it_is(site: Site) -> None:
    controller = site.start_controller()
    site.make_cluster("c1")
    await eventually(lambda: site.pods("c1"), within=WITHIN)

    metrics = await eventually(lambda: ask(controller.url, "/metrics")[1])

    assert ask(controller.url, "/healthz") == (200, "ok")
    assert ask(controller.url, "/readyz") == (200, "ok")
    assert "daskfleet_leading 1.0" in metrics
    assert 'daskfleet_clusters{phase="Pending"' in metrics
    assert 'verb="create"' in metrics


async def test_the_relay_lets_in_nobody_without_its_token(site: Site) -> None:
    controller = site.start_controller()
    site.make_cluster("c1")
    await eventually(lambda: site.pods("c1"), within=WITHIN)
    url = f"http://127.0.0.1:{controller.relay_port}"

    assert ask(url, "/v1/clusters/c1/events")[0] == 401
    assert ask(url, "/v1/clusters/c1/events", token="wrong")[0] == 401
    code, text = ask(url, "/v1/clusters/c1/events", token=controller.token)
    assert (code, isinstance(json.loads(text), list)) == (200, True)
    assert ask(url, "/v1/clusters/no/logs", token=controller.token)[0] == 404
