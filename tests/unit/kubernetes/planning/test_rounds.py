"""Stories of single rounds: what a crash, a conflict or an old view may not break."""

import pytest

from backends.kubernetes.names import format_scheduler_name
from backends.kubernetes.observed.worker_set import WorkerSet
from gateway.domain.cluster import FailureReason
from tests.support.kube_pods import FAILED, RUNNING, container, ended, started
from tests.support.kube_world import ALL, Controller, FakeServer, a_running_server

STORED = 2  # turns until the set is stored
ACTED = STORED + 2  # and until the first action has landed
WITH_TAIL = ACTED + 2  # where last log lines are read before it


@pytest.fixture
def server() -> FakeServer:
    return a_running_server()


def start(server, *, turns=0, epoch=1):
    controller = Controller(server, use_overlay=False, epoch=epoch)
    take(controller, turns)
    return controller


def take(controller, turns):
    for _ in range(turns):
        controller.advance()


def names(server):
    return {pod.name for pod in server.views()}


def test_set_is_stored_before_a_pod_is_made(server) -> None:
    server.scale(2)

    start(server, turns=STORED)

    assert server.worker_set == WorkerSet(2, frozenset({0, 1}), 1)
    assert not names(server)


def test_conflict_on_the_set_ends_the_round(server) -> None:
    server.scale(1)
    controller = start(server)
    server.scale(2)

    controller.run()

    assert server.worker_set == WorkerSet()
    assert not names(server)


def test_pods_that_a_crash_left_out_are_made_by_the_next_controller(server) -> None:
    server.scale(2)
    start(server, turns=ACTED).lose_round()

    start(server, epoch=2).run()

    assert names(server) == {"c-worker-0", "c-worker-1"}


def test_members_that_the_cache_does_not_show_are_not_replaced(server) -> None:
    server.scale(2)
    controller = start(server)
    controller.run()

    for wanted in (0, 2):
        server.scale(wanted)
        controller.receive(pods=0, versions=ALL)
        controller.run()

    assert names(server) == {"c-worker-0", "c-worker-1"}


def test_controller_behind_its_own_write_brings_no_ordinal_back(server) -> None:
    server.scale(1)
    controller = start(server)
    controller.run()
    server.set_status("c-worker-0", FAILED)
    controller.receive(ALL, ALL)
    take(controller, WITH_TAIL)
    controller.lose_round()
    server.remove("c-worker-0")

    controller.receive(pods=ALL, versions=0)
    controller.run()

    assert server.worker_set == WorkerSet(2, frozenset({1}), 1)
    assert not names(server)


def test_pod_that_begins_to_run_is_spared_and_ends_the_round(server) -> None:
    server.scale(1)
    controller = start(server)
    controller.run()
    server.scale(0)
    controller.receive(ALL, ALL)
    take(controller, STORED)
    controller.lose_round()
    server.set_status("c-worker-0", RUNNING)
    server.scale(1)

    controller.receive(pods=0, versions=ALL)
    controller.run()

    assert server.worker_set == WorkerSet(2, frozenset({1}), 1)
    assert names(server) == {"c-worker-0"}


def test_stale_create_of_an_old_member_lands_and_is_taken_back(server) -> None:
    server.scale(1)
    stale = start(server, turns=STORED)
    leader = start(server, epoch=2)
    leader.run()
    server.set_status("c-worker-0", FAILED)
    leader.receive(ALL, ALL)
    leader.run()
    server.remove("c-worker-0")

    stale.run()
    assert names(server) == {"c-worker-0", "c-worker-1"}

    leader.receive(ALL, ALL)
    leader.run()
    assert names(server) == {"c-worker-1"}


def test_an_old_leader_that_wakes_with_fresh_caches_still_does_nothing(server) -> None:
    server.scale(1)
    old = start(server)
    start(server, epoch=2).run()
    server.scale(3)

    old.receive(ALL, ALL)
    old.run()

    assert names(server) == {"c-worker-0"}
    assert server.worker_set.epoch == 2


@pytest.mark.parametrize("turns", range(6))
def test_a_verdict_outlives_a_crash_anywhere_in_its_teardown(server, turns) -> None:
    name = format_scheduler_name("c")
    state = ended(3)
    server.set_status(
        name, started(state, containerStatuses=[container(state, "dask-scheduler")])
    )
    controller = start(server)
    controller.run()  # asks for the last lines
    take(controller, turns)
    controller.lose_round()
    server.collect()

    successor = start(server, epoch=2)
    for _ in range(3):
        successor.receive()
        successor.run()

    assert server.services[-1] is None
    assert server.cluster.status.reason == FailureReason.SCHEDULER_ENDED
    assert server.cluster.status.log_tail == ("last line",)
