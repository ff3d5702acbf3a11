"""What a pod counts as, by what the platform says of its Dask container."""

import json
from datetime import timedelta

import pytest

from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.observed.verdicts import Cause, PodState
from tests.support import kube_pods as pods


def view(status, **more):
    return parse_pod(pods.a_pod(0, status=status, **more))


def disrupted(reason, **status):
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    return {
        **pods.RUNNING,
        "conditions": [pods.scheduled(), {**target, "message": "why"}],
        **status,
    }


LIMIT = {"limits": {"memory": "2Gi", "cpu": "1"}}
INIT_FAILED = {
    "phase": "Failed",
    "initContainerStatuses": [
        {"name": "fetch", "state": pods.ended(0)},
        {"name": "unpack", "state": pods.ended(2, message="no space")},
    ],
}
INIT_PULLS = {
    "phase": "Pending",
    "conditions": [pods.scheduled()],
    "containerStatuses": [
        pods.container({"waiting": {"reason": "PodInitializing"}}),
    ],
    "initContainerStatuses": [
        {"name": "fetch", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    ],
}
INIT_RUNS = {
    **INIT_PULLS,
    "initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}],
}


@pytest.mark.parametrize(
    ("status", "want_state", "want_cause"),
    [
        pytest.param({}, PodState.UNKNOWN, None, id="nothing said"),
        pytest.param(pods.PENDING, PodState.PENDING, None, id="just made"),
        pytest.param(
            pods.UNSCHEDULABLE, PodState.PENDING, Cause.UNSCHEDULABLE, id="no node"
        ),
        pytest.param(pods.WAITING, PodState.PENDING, None, id="only the sidecar runs"),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [pods.SIDECAR]},
            PodState.PENDING,
            None,
            id="no Dask container yet",
        ),
        pytest.param(
            pods.waiting("ContainerCreating"), PodState.PENDING, None, id="creating"
        ),
        pytest.param(
            pods.waiting("ErrImagePull", "not found"),
            PodState.PENDING,
            Cause.IMAGE_PULL,
            id="image",
        ),
        pytest.param(
            pods.waiting("InvalidImageName"),
            PodState.PENDING,
            Cause.IMAGE_PULL,
            id="image's name",
        ),
        pytest.param(
            INIT_PULLS, PodState.PENDING, Cause.IMAGE_PULL, id="init container's image"
        ),
        pytest.param(INIT_RUNS, PodState.PENDING, None, id="init container runs"),
        pytest.param(
            pods.waiting("CreateContainerConfigError", 'secret "x" not found'),
            PodState.PENDING,
            Cause.CONFIG,
            id="missing secret",
        ),
        pytest.param(
            pods.waiting("CreateContainerError"),
            PodState.PENDING,
            Cause.START,
            id="runtime",
        ),
        pytest.param(pods.RUNNING, PodState.RUNNING, None, id="running"),
        pytest.param(
            {"phase": "Running"}, PodState.RUNNING, None, id="running, no statuses"
        ),
        pytest.param(
            pods.SUCCEEDED, PodState.SUCCEEDED, None, id="ended well, sidecar runs"
        ),
        pytest.param(
            {"phase": "Succeeded"}, PodState.SUCCEEDED, None, id="ended, no statuses"
        ),
        pytest.param(
            pods.FAILED, PodState.FAILED, Cause.CRASHED, id="failed, sidecar runs"
        ),
        pytest.param(
            {"phase": "Failed"}, PodState.FAILED, Cause.CRASHED, id="failed, no more"
        ),
        pytest.param(
            {**pods.SUCCEEDED, "phase": "Failed"},
            PodState.SUCCEEDED,
            None,
            id="ended well, the sidecar failed",
        ),
        pytest.param(
            {**pods.RUNNING, "phase": "Failed"},
            PodState.FAILED,
            Cause.CRASHED,
            id="failed with an old container state",
        ),
        pytest.param(
            pods.OOM_KILLED, PodState.FAILED, Cause.OOM_KILLED, id="out of memory"
        ),
        pytest.param(
            pods.started(pods.ended(0, reason="OOMKilled")),
            PodState.FAILED,
            Cause.OOM_KILLED,
            id="a child was out of memory",
        ),
        pytest.param(
            pods.started(pods.ended(128, reason="StartError")),
            PodState.FAILED,
            Cause.START,
            id="no such program",
        ),
        pytest.param(
            pods.started(pods.ended(127)),
            PodState.FAILED,
            Cause.CRASHED,
            id="no such command in the shell",
        ),
        pytest.param(INIT_FAILED, PodState.FAILED, Cause.INIT, id="init container"),
        pytest.param(pods.EVICTED, PodState.FAILED, Cause.EVICTED, id="evicted"),
        pytest.param(
            {**pods.RUNNING, **pods.EVICTED},
            PodState.FAILED,
            Cause.EVICTED,
            id="evicted with an old container state",
        ),
        pytest.param(
            {**pods.OOM_KILLED, **pods.EVICTED},
            PodState.FAILED,
            Cause.EVICTED,
            id="evicted before it was killed",
        ),
        pytest.param(
            disrupted("PreemptionByScheduler", phase="Failed"),
            PodState.FAILED,
            Cause.PREEMPTED,
            id="preempted",
        ),
        pytest.param(
            disrupted("DeletionByPodGC", phase="Failed"),
            PodState.FAILED,
            Cause.NODE_LOST,
            id="its node is gone",
        ),
        pytest.param(
            disrupted("SomethingNew", phase="Failed"),
            PodState.FAILED,
            Cause.EVICTED,
            id="a disruption of another release",
        ),
        pytest.param(
            disrupted("PreemptionByScheduler"),
            PodState.RUNNING,
            None,
            id="to be preempted, still runs",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "NodeShutdown"},
            PodState.FAILED,
            Cause.NODE_LOST,
            id="node shut down",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "DeadlineExceeded"},
            PodState.FAILED,
            Cause.DEADLINE,
            id="deadline",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have"},
            PodState.FAILED,
            Cause.REFUSED_BY_NODE,
            id="node was full",
        ),
        pytest.param(pods.LOST, PodState.UNKNOWN, Cause.NODE_LOST, id="node is silent"),
    ],
)
def test_state_and_cause(status, want_state, want_cause) -> None:
    seen = view(status)

    assert (seen.state, seen.cause) == (want_state, want_cause)


@pytest.mark.parametrize(
    ("status", "want_cause", "want_code"),
    [
        pytest.param(pods.RUNNING, Cause.DELETED, None, id="by hand"),
        pytest.param(
            disrupted("DeletionByTaintManager"), Cause.NODE_LOST, None, id="node lost"
        ),
        pytest.param(
            disrupted("PreemptionByScheduler"), Cause.PREEMPTED, None, id="preempted"
        ),
        pytest.param(
            disrupted("EvictionByEvictionAPI"), Cause.EVICTED, None, id="drained"
        ),
        pytest.param(pods.FAILED, Cause.CRASHED, 1, id="had crashed before"),
        pytest.param(pods.SUCCEEDED, Cause.DELETED, 0, id="had ended before"),
        pytest.param(pods.PENDING, Cause.DELETED, None, id="never ran"),
    ],
)
def test_a_pod_that_is_being_deleted_says_why(status, want_cause, want_code) -> None:
    seen = view(status, deletionTimestamp=pods.at(1))

    assert seen.state is PodState.TERMINATING
    assert (seen.cause, seen.exit_code) == (want_cause, want_code)


def test_the_platforms_words_are_kept_short() -> None:
    assert view(pods.UNSCHEDULABLE).text.startswith("0/3 nodes are available")
    assert view(pods.EVICTED).text == "The node was low on resource: memory."
    assert view(INIT_FAILED).text == "unpack: exit status 2 no space"
    assert len(view(pods.waiting("ErrImagePull", "x" * 9999)).text) == 500


def test_a_worker_on_a_silent_node_is_live_and_may_run() -> None:
    assert PodState.UNKNOWN.is_live
    assert PodState.UNKNOWN.may_run
    assert not PodState.UNKNOWN.is_finished


@pytest.mark.parametrize("cause", [Cause.CRASHED, Cause.OOM_KILLED, Cause.IMAGE_PULL])
def test_faults_of_programs_and_settings_are_not_the_platforms(cause) -> None:
    assert not cause.is_platform
    assert Cause.PREEMPTED.is_platform


def test_times_are_those_of_the_node_and_the_api_server() -> None:
    times = {"startedAt": pods.at(7), "finishedAt": pods.at(9)}
    status = pods.started(pods.ended(1, **times), conditions=[pods.scheduled(3)])

    seen = view(status, created=2)

    found = (seen.created, seen.scheduled, seen.started, seen.finished)
    assert found == tuple(pods.NOW + timedelta(seconds=n) for n in (2, 3, 7, 9))


def test_a_running_pod_tells_since_when() -> None:
    running = pods.started({"running": {"startedAt": pods.at(5)}})

    for more in ({}, {"deletionTimestamp": pods.at(6)}):
        assert view(running, **more).started == pods.NOW + timedelta(seconds=5)


def test_a_pod_without_a_node_is_not_scheduled() -> None:
    assert view(pods.UNSCHEDULABLE).scheduled is None
    assert view(pods.PENDING).scheduled is None


def test_worker_and_scheduler_are_told_apart_and_keep_their_names() -> None:
    worker = view(pods.RUNNING)
    ready = [{"type": "Ready", "status": "True"}]
    status = {
        "phase": "Running",
        "conditions": ready,
        "containerStatuses": [pods.container({"running": {}}, "dask-scheduler")],
    }
    scheduler = parse_pod(pods.a_scheduler(status=status, owner="a1"))

    assert (worker.is_scheduler, worker.ordinal, worker.cluster) == (False, 0, "c")
    assert (scheduler.is_scheduler, scheduler.ordinal) == (True, None)
    assert (scheduler.state, scheduler.is_ready) == (PodState.RUNNING, True)
    assert scheduler.owner_uid == "a1"


def test_what_is_absent_is_empty() -> None:
    bare = parse_pod({"metadata": {"name": "c-worker-x"}})

    assert (bare.ordinal, bare.cluster, bare.owner_uid, bare.node) == (None, "", "", "")
    assert bare.state is PodState.UNKNOWN


def test_bytes_and_mappings_give_the_same() -> None:
    raw = pods.a_pod(3, status=pods.OOM_KILLED) | {"spec": {"nodeName": "n1"}}

    assert parse_pod(json.dumps(raw).encode()) == parse_pod(raw)
    assert parse_pod(raw).node == "n1"


def test_what_is_no_pod_is_refused() -> None:
    with pytest.raises(ValueError, match="metadata"):
        parse_pod(b"{}")


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        pytest.param(
            [{"name": "other"}, {"name": "dask-worker", "resources": LIMIT}],
            "its limit is 2Gi",
            id="limit",
        ),
        pytest.param(
            [{"name": "dask-worker", "resources": {"requests": {"cpu": 1}}}],
            "",
            id="no limit",
        ),
        pytest.param([{"name": "dask-worker"}], "", id="no resources"),
        pytest.param([], "", id="no container"),
    ],
)
@pytest.mark.parametrize("encode", [dict, lambda pod: json.dumps(pod).encode()])
def test_out_of_memory_is_told_with_what_there_was(containers, want, encode):
    pod = pods.a_pod(0, status=pods.OOM_KILLED)
    pod["spec"] = {"containers": containers}

    found = parse_pod(encode(pod))

    assert (found.cause, found.text) == (Cause.OOM_KILLED, want)
