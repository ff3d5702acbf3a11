"""Rows 13 and 15 of `users.md`: nodes that go, with what runs on them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.harness.control_plane import ControlPlane
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.kubelet import StandInKubelet
from tests.support.settling import (
    WITHIN,
    has_nothing_left,
    has_workers,
    reaches,
    runs,
    says,
    tells,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kubelet(plane: ControlPlane) -> Iterator[StandInKubelet]:
    """The node that stays; it leaves alone what is to run on a spot node."""
    with StandInKubelet(plane, takes=lambda pod: not is_spot(pod)) as started:
        yield started


@pytest.fixture
def spot(plane: ControlPlane) -> Iterator[StandInKubelet]:
    """A node that goes."""
    with ExitStack() as stack:
        node = StandInKubelet(plane, name="spot", takes=is_spot)
        yield stack.enter_context(node)


async def test_row_13_a_scheduler_whose_node_is_lost_fails_its_cluster(
    site: Site, spot: StandInKubelet
) -> None:
    site.make_cluster("spot-all", replicas=2)
    await runs(site, "spot-all", 2)

    spot.drop_node()

    status = await reaches(site, "spot-all", "Failed")
    assert status["reason"] == "SchedulerLost"
    await has_nothing_left(site, "spot-all")


async def test_row_15_workers_of_a_lost_node_are_replaced_and_retired_ones_are_not(
    site: Site, kubelet: StandInKubelet, spot: StandInKubelet
) -> None:
    site.make_cluster("half", replicas=6)
    await runs(site, "half", 6)
    before = find_uids(site, "half")
    kubelet.takes = lambda _: True

    spot.drop_node()
    await eventually(lambda: len(find_uids(site, "half") - before) == 3, within=WITHIN)
    await has_workers(site, "half", 6)
    await tells(site, "half", "WorkerLost", "was lost with its node")
    kept = find_uids(site, "half") & before

    site.scale("half", 3)
    await says(site, "half", "WorkersReady", "Draining")
    retired, left = site.workers("half")[:3], site.workers("half")[3:]
    for name in retired:
        kubelet.end(site.targets[0], name, 0)
    await has_workers(site, "half", 3)

    assert len(kept) == 3
    assert site.workers("half") == left
    assert site.status("half")["workers"].get("failures", 0) == 0
    await eventually(lambda: len(site.pods("half")) == 4, within=WITHIN)


def find_uids(site: Site, name: str) -> set[str]:
    """Return which worker pods there are; names may come back."""
    return {
        pod["metadata"]["uid"]
        for pod in site.pods(name)
        if "-worker-" in pod["metadata"]["name"]
    }


def is_spot(pod: object) -> bool:
    assert isinstance(pod, dict)
    name = str(pod["metadata"]["name"])
    return "spot-all" in name or name in {f"half-worker-{n}" for n in range(3)}
