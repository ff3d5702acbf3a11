"""What goes wrong on a real node, and what the cluster's owner is told of it.

The table of failures: each has its cause and its remedy in a condition and in an
Event within ten seconds of being knowable, ends in a state that has a name, and
leaves nothing over. One controller serves all of it, among namespaces that it may
not even look at.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from tests.harness.accounts import create_namespace
from tests.harness.node import Node
from tests.support.controllers import ControllerProcess, Site
from tests.support.eventually import eventually
from tests.support.rights import read_rules

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

TOLD_S = 10.0
# Only a failure waits as long: until the platform itself knows of the trouble.
PATIENCE_S = 120.0
ABSENT = "no-such-namespace"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
SMALL = {
    **{f"{role}_cores": 0.05 for role in ("scheduler", "worker")},
    **{f"{role}_cores_limit": 2 for role in ("scheduler", "worker")},
    **{f"{role}_memory": "256 M" for role in ("scheduler", "worker")},
}
SLEEP = ["sleep", "10000"]


@pytest.fixture(scope="module")
def site(
    clusters_node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A gateway's namespaces: three that are ready, one without rights, one missing."""
    plane = clusters_node.control_plane
    api = plane.client()
    home, team = (create_namespace(api, prefix) for prefix in ("gateway", "team"))
    tight = create_namespace(api, "tight")
    strict = create_namespace(api, "strict", labels=RESTRICTED)
    forbidden = create_namespace(api, "forbidden")
    made = Site(
        plane,
        home,
        (team, tight, strict),
        tmp_path_factory.mktemp("failures"),
        unready=(forbidden, ABSENT),
        cluster_settings=SMALL,
    )
    made.start_controller()
    yield made
    made.close()
    for name in (home, team, tight, strict, forbidden):
        api.delete(f"/api/v1/namespaces/{name}", propagationPolicy="Background")
    api.close()


class Failing:
    """One cluster that is to fail, and what is told of it.

    Parameters
    ----------
    spec
        Beside what `Site.make_cluster` says.
    """

    def __init__(self, site: Site, name: str, replicas: int = 0, **spec: Any) -> None:
        self.site = site
        self.name = name
        self.target = spec.get("targetNamespace", site.targets[0])
        site.make_cluster(name, replicas, **spec)

    @property
    def status(self) -> dict[str, Any]:
        return self.site.status(self.name)

    def pod(self, name: str = "") -> dict[str, Any]:
        """Return a pod; its scheduler's unless one is named."""
        path = f"/api/v1/namespaces/{self.target}/pods"
        found = self.site.api.find(f"{path}/{name or f'dask-scheduler-{self.name}'}")
        assert found is not None, self.status
        return dict(found)

    def has_failed_mount(self) -> bool:
        """Return whether the kubelet has told of a volume that is not to be had."""
        reasons = [
            event["reason"]
            for event in self.site.api.items(f"/api/v1/namespaces/{self.target}/events")
            if event["involvedObject"]["name"] == f"dask-scheduler-{self.name}"
        ]
        assert "FailedMount" in reasons, (reasons, self.status)
        return True

    async def comes_to_run(self) -> None:
        """Do as the API server does once the scheduler has called it."""
        await eventually(lambda: is_ready(self.pod()), within=PATIENCE_S)
        self.site.sync(self.name)
        await eventually(
            lambda: self.status.get("phase") == "Running", within=PATIENCE_S
        )

    async def once(self, is_knowable: Callable[[], object]) -> None:
        """Wait until the platform itself knows of the trouble."""
        await eventually(is_knowable, within=PATIENCE_S)

    async def is_told(self, kind: str, reason: str, *words: str) -> None:
        """Expect a condition and an Event that say so, cause and remedy, in time."""

        def check() -> bool:
            found = {c["type"]: c for c in self.status.get("conditions", ())}
            condition = found.get(kind, {})
            assert (condition.get("status"), condition.get("reason")) == (
                "False",
                reason,
            ), found
            assert_words(condition["message"], words)
            self._expect_event(reason, words)
            return True

        await eventually(check, within=TOLD_S)

    async def is_said(self, reason: str, *words: str) -> None:
        """Expect an Event that says so."""

        def check() -> bool:
            self._expect_event(reason, words)
            return True

        await eventually(check, within=TOLD_S)

    async def fails(
        self, reason: str, *words: str, within: float = TOLD_S
    ) -> dict[str, Any]:
        """Expect the verdict, in the status, in a condition and in an Event."""

        def check() -> dict[str, Any]:
            status = self.status
            assert (status.get("phase"), status.get("reason")) == ("Failed", reason), (
                status
            )
            return status

        status = await eventually(check, within=within)
        assert_words(status["message"], words)
        ended = {c["type"]: c for c in status["conditions"]}["SchedulerReady"]
        assert (ended["status"], ended["reason"]) == ("False", reason)
        assert ended["message"] == status["message"]
        await self.is_said(reason, *words)
        await self.leaves_nothing()
        return status

    async def stops(self) -> None:
        """Stop it, and expect that nothing is left."""
        self.site.api.patch(self.site.path(self.name), {"spec": {"active": False}})
        await eventually(lambda: self.status["phase"] == "Stopped", within=TOLD_S)
        await self.leaves_nothing()

    async def leaves_nothing(self) -> None:
        labels = f"daskfleet.io/cluster={self.name}"

        def check() -> bool:
            left = [
                f"{kind}/{item['metadata']['name']}"
                for kind in ("pods", "services", "secrets")
                for item in self.site.api.items(
                    f"/api/v1/namespaces/{self.target}/{kind}", labelSelector=labels
                )
            ]
            assert left == []
            return True

        await eventually(check, within=PATIENCE_S)

    def _expect_event(self, reason: str, words: tuple[str, ...]) -> None:
        events = self.site.events(self.name)
        said = [
            event["message"]
            for event in events
            if (event["type"], event["reason"]) == ("Warning", reason)
        ]
        assert any(all(word in text for word in words) for text in said), [
            (event["reason"], event["message"]) for event in events
        ]


def assert_words(text: str, words: tuple[str, ...]) -> None:
    assert [word for word in words if word not in text] == [], text


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(
        (c["type"], c["status"]) == ("Ready", "True")
        for c in pod["status"].get("conditions", ())
    )


def container(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the pod's one container."""
    (found,) = pod["status"].get("containerStatuses", [{"state": {}}])
    return dict(found["state"])


def waits_for(pod: Mapping[str, Any], *reasons: str) -> bool:
    return container(pod).get("waiting", {}).get("reason") in reasons


def is_unschedulable(pod: Mapping[str, Any]) -> bool:
    return any(
        c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", ())
    )


def role(name: str, spec: Mapping[str, Any] | None = None, **dask: Any) -> Any:
    """Return a template: fields of the pod's spec, and of its Dask container."""
    containers = [{"name": f"dask-{name}", **dask}]
    return {"template": {"spec": {**(spec or {}), "containers": containers}}}


def amounts(**each: str) -> dict[str, dict[str, str]]:
    return {"requests": each, "limits": each}


def seconds_between(status: Mapping[str, Any], begin: str, end: str) -> float:
    first, last = (datetime.fromisoformat(status[key]) for key in (begin, end))
    return (last - first).total_seconds()


async def test_an_image_that_does_not_exist(site: Site) -> None:
    failing = Failing(
        site,
        "image",
        scheduler=role("scheduler", image="test.local/nope:1"),
        lifetimes={"imagePullTimeoutSeconds": 6},
    )
    await failing.once(
        lambda: waits_for(failing.pod(), "ErrImagePull", "ImagePullBackOff")
    )

    words = ("cannot pull its image", "test.local/nope:1", "check the image's name")
    await failing.is_told("SchedulerReady", "ImagePullFailed", *words)
    status = await failing.fails("StartDeadlinePassed", *words, within=6 + TOLD_S)

    assert seconds_between(status, "startTime", "completionTime") >= 6


async def test_a_scheduler_that_fits_on_no_node(site: Site) -> None:
    failing = Failing(
        site,
        "huge",
        scheduler=role("scheduler", resources=amounts(cpu="100")),
        lifetimes={"schedulerStartTimeoutSeconds": 8},
    )
    await failing.once(lambda: is_unschedulable(failing.pod()))

    words = ("fits on no node", "Insufficient cpu", "ask for less")
    await failing.is_told("SchedulerReady", "Unschedulable", *words)
    status = await failing.fails("StartDeadlinePassed", *words, within=8 + TOLD_S)

    assert 8 <= seconds_between(status, "startTime", "completionTime") <= 8 + TOLD_S


async def test_workers_that_fit_on_no_node(site: Site) -> None:
    failing = Failing(
        site,
        "hugeworkers",
        replicas=2,
        worker=role("worker", resources=amounts(cpu="100")),
    )
    await failing.comes_to_run()
    await failing.once(lambda: is_unschedulable(failing.pod("hugeworkers-worker-1")))

    words = ("0 of 2 workers", "fits on no node", "Insufficient cpu", "ask for less")
    await failing.is_told("WorkersReady", "Unschedulable", *words)
    await failing.stops()


async def test_a_quota_without_room_for_the_scheduler(site: Site) -> None:
    tight = site.targets[1]
    path = f"/api/v1/namespaces/{tight}/resourcequotas"
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    site.api.post(path, quota)
    await eventually(
        lambda: "hard" in site.api.get(f"{path}/none")["status"], within=PATIENCE_S
    )

    failing = Failing(site, "poor", replicas=2, targetNamespace=tight)
    words = ("exceeded quota: none", "limited: pods=0", "have the quota raised")
    await failing.is_told("SchedulerReady", "QuotaExceeded", *words)

    # It heals by itself when someone raises the quota, and says what it still lacks.
    site.api.patch(f"{path}/none", {"spec": {"hard": {"pods": "2"}}})
    await failing.comes_to_run()
    await failing.is_told("WorkersReady", "QuotaExceeded", "of 2 workers", *words[:1])
    await failing.stops()


async def test_a_namespace_that_does_not_exist(site: Site) -> None:
    failing = Failing(
        site,
        "nowhere",
        targetNamespace=ABSENT,
        lifetimes={"schedulerStartTimeoutSeconds": 12},
    )

    words = (ABSENT, "create the namespace")
    await failing.is_told("SchedulerReady", "Forbidden", *words)
    await failing.fails("StartDeadlinePassed", *words, within=12 + TOLD_S)


async def test_a_namespace_that_the_gateway_does_not_serve(site: Site) -> None:
    failing = Failing(site, "unserved", targetNamespace="default")

    words = ("does not serve namespace default", "name another")
    await failing.is_told("SchedulerReady", "NamespaceMissing", *words)
    await failing.stops()


async def test_a_namespace_without_the_controllers_role(site: Site) -> None:
    forbidden = site.unready[0]
    failing = Failing(site, "forbidden", targetNamespace=forbidden)

    words = (f'in the namespace "{forbidden}"', "give the controller its Role")
    await failing.is_told("SchedulerReady", "Forbidden", *words)

    # It heals when the administrator does as told.
    site.prepare(forbidden)
    await failing.comes_to_run()
    await failing.stops()


async def test_a_secret_that_is_missing_from_the_environment(site: Site) -> None:
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k"}}}]
    failing = Failing(
        site,
        "nosecret",
        scheduler=role("scheduler", env=env),
        lifetimes={"schedulerStartTimeoutSeconds": 8},
    )
    await failing.once(lambda: waits_for(failing.pod(), "CreateContainerConfigError"))

    words = ('secret "nope" not found', "check the Secrets")
    await failing.is_told("SchedulerReady", "ConfigurationError", *words)
    await failing.fails("StartDeadlinePassed", *words, within=8 + TOLD_S)


async def test_a_secret_that_is_missing_from_a_volume(site: Site) -> None:
    volumes = [{"name": "v", "secret": {"secretName": "nope"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    failing = Failing(
        site,
        "novolume",
        scheduler=role("scheduler", {"volumes": volumes}, volumeMounts=mounts),
        lifetimes={"schedulerStartTimeoutSeconds": 14},
    )
    # The pod's status says nothing of it, ever; an Event of the kubelet does.
    await failing.once(failing.has_failed_mount)

    words = ('secret "nope" not found', "check the volumes, Secrets")
    await failing.is_told("SchedulerReady", "SetupFailed", *words)
    await failing.fails("StartDeadlinePassed", *words, within=14 + TOLD_S)


async def test_a_command_that_does_not_exist(site: Site) -> None:
    failing = Failing(site, "nocommand", scheduler={"command": ["no-such-command"]})
    await failing.once(
        lambda: "Failed" in (failing.status.get("phase"), phase_of(failing))
    )

    await failing.fails(
        "SchedulerEnded",
        "cannot start its program",
        "no-such-command",
        "check the command",
    )


async def test_a_scheduler_that_exits_with_its_last_words(site: Site) -> None:
    script = "echo the marker >&2; exit 3"
    failing = Failing(site, "exits", scheduler={"command": ["sh", "-c", script, "--"]})
    await failing.once(
        lambda: "Failed" in (failing.status.get("phase"), phase_of(failing))
    )

    status = await failing.fails(
        "SchedulerEnded", "ended with exit status 3", "its last log lines say why"
    )

    assert status["logTail"] == ["the marker"]


async def test_a_scheduler_that_needs_more_memory_than_it_may(site: Site) -> None:
    failing = Failing(
        site,
        "oom",
        scheduler={
            "command": ["python", "-c", "b = bytearray(2**30)"],
            **role("scheduler", resources=amounts(memory="64Mi")),
        },
    )
    await failing.once(
        lambda: "Failed" in (failing.status.get("phase"), phase_of(failing))
    )

    await failing.fails(
        "SchedulerEnded", "out of memory (exit status 137)", "ask for more memory"
    )


async def test_workers_that_crash_again_and_again(site: Site) -> None:
    script = "echo the marker >&2; exit 3"
    failing = Failing(
        site, "loop", replicas=2, worker={"command": ["sh", "-c", script, "--"]}
    )
    await failing.comes_to_run()

    status = await failing.fails(
        "WorkersCrashing",
        "workers in a row failed before any was connected",
        "ended with exit status 3",
        "its last log lines say why",
        within=PATIENCE_S,
    )

    assert status["logTail"] == ["the marker"]
    await failing.is_said("WorkerFailed", "ended with exit status 3")


async def test_a_worker_over_its_memory_is_told_and_replaced(site: Site) -> None:
    program = "import time; time.sleep(1); b = bytearray(2**30)"
    failing = Failing(
        site,
        "oomworker",
        replicas=1,
        worker={
            "command": ["python", "-c", program],
            **role("worker", resources=amounts(memory="64Mi")),
        },
        lifetimes={"workerStartFailureLimit": 100},
    )
    await failing.comes_to_run()
    await failing.once(lambda: failing.pod("oomworker-worker-1"))

    await failing.is_said(
        "WorkerFailed", "out of memory (exit status 137)", "ask for more memory"
    )
    await failing.stops()


async def test_a_worker_that_is_evicted_for_its_disk(site: Site) -> None:
    volumes = [{"name": "tmp", "emptyDir": {"sizeLimit": "8Mi"}}]
    program = "head -c 40M /dev/zero >/tmp/a; exec sleep 10000"
    failing = Failing(
        site,
        "evicted",
        replicas=1,
        worker={
            "command": ["sh", "-c", program, "--"],
            **role("worker", {"volumes": volumes, "terminationGracePeriodSeconds": 1}),
        },
    )
    await failing.comes_to_run()
    await failing.once(lambda: failing.pod("evicted-worker-1"))

    await failing.is_said("WorkerLost", "was evicted", "exceeds the limit", "use less")
    await failing.stops()


async def test_a_scheduler_that_is_evicted_by_the_api(site: Site) -> None:
    failing = Failing(site, "drained")
    await failing.comes_to_run()
    pod = failing.pod()["metadata"]

    site.api.post(
        f"/api/v1/namespaces/{failing.target}/pods/{pod['name']}/eviction",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod["name"]},
        },
    )

    await failing.fails("SchedulerLost", "was evicted", "create the cluster again")


async def test_a_template_that_pod_security_refuses(site: Site) -> None:
    failing = Failing(
        site,
        "unsafe",
        targetNamespace=site.targets[2],
        scheduler=role("scheduler", {"hostNetwork": True}),
    )

    await failing.fails(
        "StartFailed",
        "scheduler cannot be created",
        "violates PodSecurity",
        "host namespaces (hostNetwork=true)",
        "change the pod's template",
    )


async def test_workers_that_pod_security_refuses(site: Site) -> None:
    failing = Failing(
        site,
        "unsafeworkers",
        replicas=2,
        targetNamespace=site.targets[2],
        worker=role("worker", {"hostNetwork": True}),
    )
    await failing.comes_to_run()

    await failing.is_told(
        "WorkersReady",
        "RefusedByPolicy",
        "0 of 2 workers",
        "violates PodSecurity",
        "change the pod's template",
    )
    await failing.stops()


async def test_a_node_that_falls_silent(site: Site, node: Node) -> None:
    unreachable = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 1,
    }
    impatient = {"tolerations": [unreachable]}
    scheduler_lost = Failing(site, "lost", scheduler=role("scheduler", impatient))
    worker_lost = Failing(
        site,
        "lostworker",
        replicas=1,
        worker={
            "command": [*SLEEP],
            **role("worker", {**impatient, "terminationGracePeriodSeconds": 1}),
        },
    )
    await scheduler_lost.comes_to_run()
    await worker_lost.comes_to_run()
    await eventually(
        lambda: container(worker_lost.pod("lostworker-worker-0")).get("running"),
        within=PATIENCE_S,
    )

    node.kubelet.pause()
    try:
        worker = "lostworker-worker-0"
        await worker_lost.once(lambda: is_going(worker_lost.pod(worker)))
        await worker_lost.is_said(
            "WorkerLost", "was lost with its node", "who runs the nodes"
        )
        await scheduler_lost.once(
            lambda: (
                scheduler_lost.status["phase"] == "Failed"
                or is_going(scheduler_lost.pod())
            )
        )
        await eventually(
            lambda: scheduler_lost.status["phase"] == "Failed", within=TOLD_S
        )
    finally:
        node.kubelet.resume()
    await scheduler_lost.fails(
        "SchedulerLost", "was lost with its node", "create the cluster again"
    )
    await worker_lost.once(lambda: node.is_ready)
    await worker_lost.stops()


def is_going(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def phase_of(failing: Failing) -> str:
    return str(failing.pod()["status"].get("phase"))


async def test_a_right_that_is_taken_away_and_given_back(
    clusters_node: Node, make_namespace, tmp_path
) -> None:
    home, kept, taken = (make_namespace(p) for p in ("gateway", "kept", "taken"))
    plane = clusters_node.control_plane
    site = Site(plane, home, (kept, taken), tmp_path, cluster_settings=SMALL)
    try:
        # Killed, it takes over from itself when its lease has run out.
        controller = site.start_controller(lease_duration=3)
        one = Failing(site, "one")
        other = Failing(site, "other", targetNamespace=taken)
        await one.comes_to_run()
        await other.comes_to_run()

        # A new process may not look there; it does its work elsewhere, and harms none.
        site.account.grant([], namespace=taken)
        controller.kill()
        controller.start()
        await eventually(lambda: is_well(controller), within=PATIENCE_S)
        await one.stops()
        site.api.patch(site.path("other"), {"spec": {"workers": {"replicas": 1}}})
        words = (taken, "give the controller its Role")
        await other.is_told("WorkersReady", "Forbidden", *words)
        assert other.status["phase"] == "Running"

        site.account.grant(read_rules("controller-target.yaml"), namespace=taken)
        await eventually(lambda: other.pod("other-worker-0"), within=PATIENCE_S)
        await other.stops()
    finally:
        site.close()


def is_well(controller: ControllerProcess) -> bool:
    """Return whether its probes say that all is well."""
    try:
        return controller.ask("/readyz") == controller.ask("/healthz") == "ok"
    except OSError:
        return False
