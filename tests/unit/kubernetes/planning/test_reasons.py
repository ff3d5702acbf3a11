"""Each cause in words: what is wrong, in the platform's words, and what to do."""

import msgspec
import pytest

from backends.kubernetes.observed.pods import parse_pod
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.reasons import describe_pod, find_reason
from tests.support import kube_pods as pods
from tests.support.kube_situations import scheduler, worker


@pytest.mark.parametrize(
    ("pod", "want_reason", "want_text"),
    [
        pytest.param(
            worker(0, pods.UNSCHEDULABLE),
            "Unschedulable",
            "fits on no node: 0/3 nodes are available: 3 Insufficient cpu; ask for "
            "less, or wait until there is room",
            id="no node",
        ),
        pytest.param(
            worker(0, pods.waiting("ErrImagePull")),
            "ImagePullFailed",
            "cannot pull its image: ErrImagePull; check the image's name and its pull "
            "secrets",
            id="image, without words",
        ),
        pytest.param(
            worker(
                0, pods.started(pods.ended(128, reason="StartError", message="a\nb"))
            ),
            "StartError",
            "cannot start its program (exit status 128): a b; check the command, and "
            "that the image has it",
            id="two lines",
        ),
        pytest.param(
            worker(0, {"phase": "Failed", "reason": "NodeLost"}),
            "NodeLost",
            "was lost with its node, which is gone, silent or shutting down; who runs "
            "the nodes can say why",
            id="nothing to be done",
        ),
        pytest.param(
            worker(0, pods.FAILED),
            "Crashed",
            "ended with exit status 1; its last log lines say why",
            id="crash",
        ),
        pytest.param(
            worker(0, pods.started(pods.ended(1, message="Error: x."))),
            "Crashed",
            "ended with exit status 1: Error: x; its last log lines say why",
            id="termination message",
        ),
        pytest.param(
            worker(0, {"phase": "Failed"}),
            "Crashed",
            "ended; its exit status is not known; its last log lines say why",
            id="no status",
        ),
        pytest.param(
            worker(0, pods.SUCCEEDED),
            "Completed",
            "ended with exit status 0",
            id="well",
        ),
        pytest.param(
            worker(0, pods.PENDING), "WaitingForNode", "waits for a node", id="pending"
        ),
        pytest.param(
            worker(0, pods.WAITING),
            "Starting",
            "waits for its image and containers",
            id="starting",
        ),
        pytest.param(worker(0, pods.RUNNING), "Running", "runs", id="running"),
        pytest.param(
            worker(0, {}), "Unknown", "is in an unknown state", id="nothing known"
        ),
        pytest.param(
            scheduler(
                pods.started(
                    {},
                    containerStatuses=[
                        pods.container({"running": {}}, "dask-scheduler")
                    ],
                )
            ),
            "Running",
            "runs, but does not answer at :8787/health yet",
            id="scheduler before its probe",
        ),
        pytest.param(scheduler(), "Running", "runs", id="scheduler"),
    ],
)
def test_reason_and_words(pod, want_reason, want_text) -> None:
    assert find_reason(pod) == want_reason
    assert describe_pod(pod) == want_text


def test_the_node_is_named_once_it_is_known() -> None:
    pod = parse_pod(pods.a_pod(0, status=pods.WAITING) | {"spec": {"nodeName": "n1"}})

    assert describe_pod(pod) == "waits for its image and containers on node n1"


@pytest.mark.parametrize("cause", list(Cause))
def test_each_cause_has_words(cause) -> None:
    pod = msgspec.structs.replace(
        worker(0, pods.FAILED), state=PodState.FAILED, cause=cause
    )

    assert describe_pod(pod)
    assert not describe_pod(pod).endswith(".")
