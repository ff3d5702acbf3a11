"""Six lives of clusters, told by what the controller does; see ``tests/golden``."""

import pytest

from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    AdaptiveTarget,
    WorkersSpec,
)
from backends.kubernetes.names import format_scheduler_name
from backends.kubernetes.planning.inputs import Refusal, RefusalKind
from gateway.domain.cluster import StopReason
from tests.support.golden import Golden, golden  # noqa: F401 - a fixture
from tests.support.kube_pods import (
    EVICTED,
    FAILED,
    RUNNING,
    WAITING,
    container,
    ended,
    started,
    waiting,
)
from tests.support.kube_situations import later
from tests.support.kube_story import Story

TIMES = {"startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T01:00:00Z"}


def a_whole_life() -> Story:
    story = Story("A cluster is created, scaled, adapts, and is stopped")
    server = story.server
    story.begins_to_run()
    server.scale(3)
    story.happens("Its owner wants three workers.", after=10)
    for ordinal in (0, 1):
        story.worker_becomes(ordinal, RUNNING)
    story.worker_becomes(2, WAITING)
    story.happens("Two of them run; the image of the third comes slowly.", after=5)
    server.report(first_worker_time=story.controller.now)
    server.scale(1)
    story.happens("Its owner wants one. The one that starts goes at once.", after=30)
    story.worker_becomes(1, started(ended(0, **TIMES)))
    story.happens(
        "The scheduler has moved the data of one and let it go: it has ended.", after=8
    )
    story.server.remove("c-worker-1")
    bounds = AdaptiveSpec(id="i1", minimum=0, maximum=4)
    server.change(workers=WorkersSpec(replicas=1, adaptive=bounds))
    story.happens("Its owner lets it adapt between none and four.", after=60)
    server.report(adaptive_target=AdaptiveTarget(id="i1", target=3))
    story.happens("The scheduler has much to do, and asks for three.", after=3)
    for ordinal in (3, 4):
        story.worker_becomes(ordinal, RUNNING)
    story.happens("They run.", after=4)
    server.stop(StopReason.USER, "done for today")
    story.happens("Its owner stops it.", after=600)
    server.collect()
    story.happens("All pods are gone.", after=30)
    story.happens("An hour later nobody needs to know of it any more.", after=3600)
    return story


def a_failed_image() -> Story:
    story = Story("The scheduler's image does not exist")
    story.happens("Somebody creates a cluster with a misspelt image.")
    text = 'failed to resolve reference "example.org/dusk:1": not found'
    story.scheduler_becomes(waiting("ErrImagePull", text, name="dask-scheduler"))
    story.happens("The registry does not have it.", after=3)
    story.happens("Nothing has changed for two minutes.", after=120)
    return story


def a_quota() -> Story:
    story = Story("A quota has room for two of four workers")
    text = "exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3"
    story.server.refusal = Refusal(RefusalKind.QUOTA, text, later(30))
    story.server.most_pods = 3
    story.begins_to_run()
    story.server.scale(4)
    story.happens("Its owner wants four workers.", after=5)
    for ordinal in (0, 1):
        story.worker_becomes(ordinal, RUNNING)
    story.happens("Those that there was room for run.", after=5)
    story.server.refusal = None
    story.happens("The quota was raised, and it is time to try again.", after=20)
    for ordinal in (2, 3):
        story.worker_becomes(ordinal, RUNNING)
    story.happens("All run.", after=5)
    return story


def evicted_workers() -> Story:
    story = Story("A node runs out of memory, and a worker out of luck")
    story.begins_to_run()
    story.server.report(first_worker_time=story.controller.now)
    story.server.scale(3)
    story.happens("Its owner wants three workers.", after=5)
    for ordinal in range(3):
        story.worker_becomes(ordinal, RUNNING)
    story.happens("They run.", after=5)
    story.worker_becomes(0, EVICTED)
    story.happens("The kubelet evicts one: no fault of its own.", after=300)
    story.worker_becomes(1, FAILED)
    story.happens("Another crashes.", after=60)
    story.server.terminate("c-worker-2")
    story.happens("The third is deleted by hand.", after=60)
    for name in [pod.name for pod in story.server.views()]:
        if name in ("c-worker-0", "c-worker-1", "c-worker-2"):
            story.server.remove(name)
    for ordinal in (3, 4, 5):
        story.worker_becomes(ordinal, RUNNING)
    story.happens("The new ones run, and the old ones are gone.", after=5)
    return story


def a_lost_scheduler() -> Story:
    story = Story("The scheduler runs out of memory")
    story.begins_to_run()
    story.server.scale(1)
    story.happens("Its owner wants a worker.", after=5)
    story.worker_becomes(0, RUNNING)
    story.happens("It runs.", after=5)
    story.controller.log = ("distributed.scheduler - INFO - Receive client", "Killed")
    state = ended(137, reason="OOMKilled")
    story.scheduler_becomes(
        started(state, containerStatuses=[container(state, "dask-scheduler")])
    )
    story.happens("The kernel kills the scheduler.", after=900)
    story.server.collect()
    story.happens("All pods are gone; the reason stays.", after=30)
    return story


def a_deleted_anchor() -> Story:
    story = Story("Somebody deletes the cluster's Service by hand")
    story.begins_to_run()
    service = story.server.services[-1]
    assert service is not None
    story.server.delete_service(service.uid)
    story.happens("The Service is gone, and with it all that it owned.", after=60)
    story.server.collect()
    assert format_scheduler_name("c") not in story.server.pods
    story.happens("Nothing is made again.", after=30)
    return story


@pytest.mark.parametrize(
    "tell",
    [
        a_whole_life,
        a_failed_image,
        a_quota,
        evicted_workers,
        a_lost_scheduler,
        a_deleted_anchor,
    ],
    ids=lambda tell: tell.__name__.replace("_", "-"),
)
def test_the_story_goes_as_it_was_reviewed(tell, golden: Golden) -> None:  # noqa: F811 - a fixture
    name = tell.__name__.replace("_", "-")

    golden.check(f"kubernetes/{name}.txt", tell().text)
