"""What a scheduler's plugin tells the gateway, at both ends of the supported range."""

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.integration

# What an open GatewayCluster of the stock client is to a scheduler: one comm, no
# client (dask-gateway 2026.3, GatewayCluster._init_internals).
WATCH = """
from distributed.core import rpc
watchers = globals().get("watchers", [])
async def watch():
    scheduler = rpc(client.scheduler.address)
    comm = await scheduler.live_comm()
    await comm.write({"op": "subscribe_worker_status"})
    info = await comm.read()
    watchers.append((scheduler, comm))
    return sorted(info["workers"])
answer = client.sync(watch)
"""
UNWATCH = """
async def unwatch():
    await watchers.pop()[1].close()
client.sync(unwatch)
"""


async def test_first_report_names_ports_and_versions(world):
    await world.start()

    first = world.server.reports[0]

    assert (first.protocol, first.seen, first.wait_s) == (1, 0, 0.0)
    assert first.ports.scheduler > 0
    assert first.ports.dashboard > 0
    assert set(first.versions) == {"distributed", "python"}
    assert (first.workers, first.clients, first.unfinished) == ((), 0, 0)
    # The port is the one that clients reach, and no user's code finds the token.
    variable = "lambda: __import__('os').environ.get('DASK_GATEWAY_API_TOKEN')"
    assert await world.run(f"answer = client.run_on_scheduler({variable})") is None


async def test_clients_are_counted_rightly(world):
    """Row 39 of users.md needs it: a held future of nobody is not a client."""
    await world.start()
    await world.told(lambda report: report.no_client_s > 0)
    await world.run("distributed.fire_and_forget(client.submit(abs, 1))")
    await eventually(lambda: world.server.last.clients == 1)

    assert await world.run(WATCH) == []
    await world.run("second = distributed.Client(client.scheduler.address)")
    await world.run(WATCH)
    await world.run("second.close()")
    await world.told(lambda report: report.clients == 3)
    assert world.server.last.no_client_s == 0
    await world.run(UNWATCH + "client.close()")
    await world.told(lambda report: report.clients == 1)

    # The task of nobody is still there, and counts as work.
    assert world.server.last.unfinished == 1
    await world.close_client()
    await eventually(lambda: world.server.last.clients == 0)
    await world.told(lambda report: report.no_client_s > 0)


async def test_tasks_of_any_state_with_work_ahead_are_counted(world):
    """Row 39 of users.md: waiting for a worker that cannot start is not idle."""
    await world.start()
    await world.run(
        "gpu = client.submit(abs, -1, resources={'GPU': 1})\n"
        "later = client.submit(abs, gpu)"
    )
    await eventually(lambda: world.server.last.unfinished == 2)
    assert world.server.last.idle_s == 0

    await world.server.want(replicas=1)
    await world.start_worker(0)
    await world.run(
        "def secede(folder):\n"
        "    with distributed.worker_client() as inner:\n"
        "        return inner.submit(work, folder, 'inner').result()\n"
        "long = client.submit(secede, folder)"
    )
    await eventually(lambda: world.started("inner"))
    await world.told(lambda report: report.unfinished == 4)

    await world.run("del gpu, later")
    world.let_go("inner")
    assert await world.run("answer = long.result()") == "inner"
    await eventually(lambda: world.server.last.unfinished == 0)
    # Scattered data alone is no work.
    await world.run("kept = client.scatter(1)")
    await world.told(lambda report: report.idle_s > 0.5)
    assert world.server.last.unfinished == 0


async def test_idle_time_starts_anew_after_each_piece_of_work(world):
    """Row 38 of users.md: the watch once ended for good when it had seen work."""
    await world.start()
    await world.server.want(replicas=1)
    await world.start_worker(0, "--nanny")
    for number in range(5):
        await _busy_then_idle(world, f"t{number}")
    await world.run("client.restart()")
    await _busy_then_idle(world, "after-restart")


async def _busy_then_idle(world, task):
    await world.run(f"f = client.submit(work, folder, {task!r})")
    await eventually(lambda: world.server.last.unfinished == 1)
    world.let_go(task)
    await eventually(lambda: world.server.last.unfinished == 0)

    await world.told(lambda report: 0.5 < report.idle_s < 20)


async def test_change_of_workers_is_told_at_once_and_held_calls_are_one(world):
    await world.start()
    await eventually(lambda: world.server.held == 1)
    await world.server.want(replicas=2)

    await world.start_worker(0)
    worker = await world.start_worker(1)
    worker.kill()
    await eventually(lambda: world.server.last.workers == ("c1-worker-0",))

    assert world.server.most_held <= 2
    held = [report for report in world.server.reports if report.wait_s]
    assert all(35 <= report.wait_s <= 45 for report in held)
    assert {report.seen for report in held} == {1, 2}


async def test_what_people_should_know_is_logged_once_and_shown_to_their_clients(world):
    """Newer clients show what is logged under "warn"; older ones could ask for it."""
    await world.start()
    await world.run("answer = client.scheduler_info()['id']")

    await world.server.want(notice="the end is near")
    await world.server.want(replicas=1)

    await eventually(lambda: world.server.last.seen == world.server.reply.generation)
    said = await world.run("answer = [e[1] for e in client.get_events('warn')]")
    assert said == ["the end is near"]
    assert world.log().count("WARNING - the end is near") == 1
