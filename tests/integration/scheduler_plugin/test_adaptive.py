"""Adaptive mode with real schedulers, at both ends of the supported range."""

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.integration


async def test_target_goes_up_with_work_and_down_without_it(world):
    """Rows 42 and 45 of users.md."""
    await world.start()
    await world.server.adapt(0, 3)
    await eventually(lambda: world.server.last.target == 0)
    # Nothing runs yet and there is no worker: at least one is asked for.
    await world.run(
        "names = [f'm{i}' for i in range(60)]\n"
        "many = client.map(work, [folder] * 60, names, [1.0] * 60)"
    )
    await eventually(lambda: world.server.reply.replicas >= 1)
    for ordinal in range(3):
        await eventually(lambda ordinal=ordinal: world.server.reply.replicas > ordinal)
        await world.start_worker(ordinal)
    assert world.server.last.adaptive_id == world.server.reply.adaptive.id
    assert max(report.target or 0 for report in world.server.reports) <= 3
    busy = await world.run("answer = distributed.wait(many[:3]) and 1")
    assert busy == 1

    await world.run("client.cancel(many); del many")

    await eventually(lambda: world.server.last.target == 0)
    await eventually(lambda: world.server.last.workers == ())
    for worker in world.workers.values():
        await eventually(lambda worker=worker: worker.returncode is not None)


async def test_adaptive_mode_never_takes_a_busy_worker_while_others_start(world):
    """Row 42 of users.md: one busy, many starting, and the target drops."""
    await world.start()
    await world.server.want(replicas=1)
    await world.start_worker(0)
    await world.run("a = client.submit(work, folder, 'a')")
    await eventually(lambda: world.started("a"))
    await world.server.want(replicas=30)

    await world.server.adapt(0, 5)

    await eventually(lambda: world.server.last.target == 1)
    await world.start_worker(1, connected=False)
    await eventually(lambda: world.workers["c1-worker-1"].returncode is not None)
    assert world.server.last.workers == ("c1-worker-0",)
    assert not any("c1-worker-0" in r.draining for r in world.server.reports)
    world.let_go("a")
    assert await world.run("answer = a.result()") == "a"
    assert world.started("a") == ["c1-worker-0"]


async def test_last_adapt_wins_and_scale_ends_it(world):
    """Row 50 of users.md: two loops once worked against each other."""
    await world.start()
    await world.run(
        "many = client.map(work, [folder] * 9, [f'm{i}' for i in range(9)], [60.] * 9)"
    )
    await world.server.adapt(16, 16)
    await eventually(lambda: world.server.last.target == 16)
    first = world.server.reply.adaptive.id

    await world.server.adapt(1, 8)
    await eventually(lambda: world.server.last.adaptive_id not in {None, first})
    after = len(world.server.reports)
    assert world.server.last.target <= 8
    await eventually(lambda: world.server.last.target == 1)
    assert all(report.target <= 8 for report in world.server.reports[after:])

    await world.server.want(adaptive=None, replicas=0)
    await eventually(lambda: world.server.last.seen == world.server.reply.generation)
    await world.run("more = client.map(abs, range(50))")
    await world.server.want()
    await eventually(lambda: world.server.last.seen == world.server.reply.generation)
    assert (world.server.last.adaptive_id, world.server.last.target) == (None, None)
    assert world.server.reply.replicas == 0


async def test_adaptive_loop_outlives_errors_and_load(world):
    """Row 48 of users.md: thousands of tasks and killed workers."""
    flaky = world.folder / "flaky.py"
    flaky.write_text(
        "def dask_setup(scheduler):\n"
        "    target, calls = scheduler.adaptive_target, []\n"
        "    def flaky(*args, **kwargs):\n"
        "        calls.append(1)\n"
        "        if len(calls) % 3 == 1:\n"
        "            raise KeyError('gone')\n"
        "        return target(*args, **kwargs)\n"
        "    scheduler.adaptive_target = flaky\n"
    )
    await world.start(flaky, world.plugin)
    await world.server.adapt(0, 2)
    await world.run(
        "n = 1000\n"
        "many = client.map(work, [folder] * n, ['x'] * n, [0.005] * n, pure=False)"
    )
    await eventually(lambda: world.server.reply.replicas >= 1)
    killed = await world.start_worker(0)
    await eventually(lambda: len(world.started("x")) > 50)
    killed.kill()
    await eventually(lambda: world.server.last.workers == ())
    await world.start_worker(1)
    await world.run("answer = len(client.gather(many))")
    await world.run("del many")

    await eventually(lambda: world.server.last.target == 0)
    await eventually(lambda: world.workers["c1-worker-1"].returncode is not None)
    assert "no adaptive target this time" in world.log()
