"""Surplus workers go, and nothing is lost or done twice. Both ends of the range."""

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.integration


async def _busy(world, task, worker=""):
    """Start a task that runs until it is let go; return the worker that runs it."""
    where = [worker] if worker else None
    await world.run(f"{task} = client.submit(work, folder, {task!r}, workers={where})")
    await eventually(lambda: world.started(task))
    return world.started(task)[0]


async def _start_workers(world, count, *options):
    await world.server.want(replicas=count)
    for ordinal in range(count):
        await world.start_worker(ordinal, *options, connected=False)
    await eventually(lambda: len(world.server.last.workers) == count)


def _has_ended(world, name):
    return world.workers[name].returncode is not None


async def test_idle_workers_go_first_and_a_running_task_is_not_disturbed(world):
    """Rows 1 and 42 of users.md, and the 500 cores of dg#252."""
    await world.start()
    await _start_workers(world, 3)
    busy = await _busy(world, "a")

    await world.server.want(replicas=1)

    await eventually(lambda: world.server.last.workers == (busy,))
    for name in world.workers.keys() - {busy}:
        await eventually(lambda name=name: _has_ended(world, name))
    world.let_go("a")
    assert await world.run("answer = a.result()") == "a"
    assert world.started("a") == [busy]
    assert not _has_ended(world, busy)
    assert world.server.last.draining == ()


async def test_busy_worker_gets_no_new_task_and_goes_when_it_is_done(world):
    await world.start()
    await _start_workers(world, 2, "--nthreads", "2")  # both have room for more
    await _busy(world, "a", "c1-worker-0")
    await _busy(world, "b", "c1-worker-1")

    await world.server.want(replicas=1)
    await eventually(lambda: len(world.server.last.draining) == 1)
    (going,) = world.server.last.draining
    (staying,) = world.server.last.workers
    mine = "a" if going == "c1-worker-0" else "b"
    map_names = (
        "more = client.map(lambda i: distributed.get_worker().name, range(20), "
        "pure=False)\nanswer = client.gather(more)"
    )
    assert set(await world.run(map_names)) == {staying}
    # A worker says "running" whenever its memory monitor resumes it.
    await world.run(
        "from distributed.core import Status\n"
        "def resume(dask_worker):\n"
        "    dask_worker.status = Status.paused\n"
        "    dask_worker.status = Status.running\n"
        "client.run(resume)"
    )
    assert set(await world.run(map_names)) == {staying}
    # Tasks that ask for this worker alone wait rather than land on it.
    await world.run(f"asks = client.submit(abs, -1, workers=[{going!r}])")
    await world.told(lambda report: report.unfinished == 3)
    assert world.server.last.draining == (going,)
    assert not _has_ended(world, going)

    world.let_go(mine)

    await eventually(lambda: _has_ended(world, going))
    assert await world.run(f"answer = {mine}.result()") == mine
    assert world.started(mine) == [going]
    assert world.server.last.held == {}
    await eventually(lambda: world.server.last.draining == ())
    assert await world.run("answer = asks.status") == "pending"


async def test_tasks_that_have_not_begun_do_not_keep_a_busy_worker(world):
    await world.start()
    await _start_workers(world, 2)
    await _busy(world, "a", "c1-worker-0")
    await _busy(world, "b", "c1-worker-1")
    # Each with a key of its own: of one group, the newest would keep them queued.
    await world.run(
        "name = lambda: distributed.get_worker().name\n"
        "more = [client.submit(name, key=f'x{i}y') for i in range(40)]"
    )
    await world.told(lambda report: report.unfinished == 42)

    await world.server.want(replicas=1)
    await eventually(lambda: world.server.last.draining)
    ((going,), (staying,)) = world.server.last.draining, world.server.last.workers
    mine, other = ("a", "b") if going == "c1-worker-0" else ("b", "a")
    has = f"""answer = client.run_on_scheduler(
        lambda dask_scheduler: [len(w.processing)
        for w in dask_scheduler.workers.values() if w.name == {going!r}])"""

    async def only_its_own():
        return await world.run(has) == [1]

    await eventually(only_its_own)
    world.let_go(mine)
    await eventually(lambda: _has_ended(world, going))
    world.let_go(other)
    assert set(await world.run("answer = client.gather(more)")) == {staying}
    assert (world.started(mine), world.started(other)) == ([going], [staying])


async def test_busy_worker_is_let_off_when_another_becomes_idle(world):
    await world.start()
    await _start_workers(world, 2)
    await _busy(world, "a", "c1-worker-0")
    await _busy(world, "b", "c1-worker-1")
    await world.server.want(replicas=1)
    await eventually(lambda: world.server.last.draining)
    ((going,), (staying,)) = world.server.last.draining, world.server.last.workers
    mine, other = ("a", "b") if going == "c1-worker-0" else ("b", "a")

    world.let_go(other)

    await eventually(lambda: _has_ended(world, staying))
    await eventually(lambda: world.server.last.workers == (going,))
    world.let_go(mine)
    assert await world.run("answer = client.gather([a, b])") == ["a", "b"]
    assert (world.started(mine), world.started(other)) == ([going], [staying])


async def test_raised_number_cancels_a_drain_and_the_worker_works_again(world):
    await world.start()
    await _start_workers(world, 2)
    await _busy(world, "a", "c1-worker-0")
    await _busy(world, "b", "c1-worker-1")
    await world.server.want(replicas=0)
    await eventually(lambda: len(world.server.last.draining) == 2)
    assert world.server.last.workers == ()
    await world.run("waits = client.submit(work, folder, 'c', 0.01)")

    await world.server.want(replicas=2)

    await eventually(lambda: len(world.server.last.workers) == 2)
    assert world.server.last.draining == ()
    world.let_go("a")
    world.let_go("b")
    assert await world.run("answer = client.gather([a, b, waits])") == ["a", "b", "c"]
    assert [world.started(n) for n in "ab"] == [["c1-worker-0"], ["c1-worker-1"]]
    for worker in ("c1-worker-0", "c1-worker-1"):
        # A worker that still thinks it must end would never run this.
        await world.run(
            f"answer = client.submit(abs, -1, workers=[{worker!r}]).result()"
        )


async def test_raised_number_stops_a_retirement_that_still_moves_data(world):
    slow = world.folder / "slow.py"
    slow.write_text(
        "import asyncio, pathlib\n"
        "def dask_setup(scheduler):\n"
        "    track = scheduler._track_retire_worker\n"
        "    async def slow(*args, **kwargs):\n"
        "        pathlib.Path('moving').touch()\n"
        "        while not pathlib.Path('moved').exists():\n"
        "            await asyncio.sleep(0.05)\n"
        "        return await track(*args, **kwargs)\n"
        "    scheduler._track_retire_worker = slow\n"
    )
    await world.start(slow, world.plugin)
    await _start_workers(world, 2)
    await world.run(
        "kept = client.submit(abs, -5, workers=['c1-worker-1'])\ndistributed.wait(kept)"
    )
    await _busy(world, "a", "c1-worker-0")
    await world.server.want(replicas=1)
    # The worker has been told to end once its data is moved.
    await eventually((world.folder / "moving").exists)
    await eventually(lambda: world.server.last.draining == ("c1-worker-1",))

    await world.server.want(replicas=2)

    await eventually(lambda: len(world.server.last.workers) == 2)
    (world.folder / "moved").touch()
    again = "client.submit(abs, -1, workers=['c1-worker-1']).result()"
    assert await world.run(f"answer = {again}") == 1
    assert not _has_ended(world, "c1-worker-1")

    await world.server.want(replicas=1)
    await eventually(lambda: _has_ended(world, "c1-worker-1"))
    assert await world.run("answer = kept.result()") == 5


async def test_only_copy_of_data_keeps_its_worker_until_it_is_released(world):
    await world.start()
    await _start_workers(world, 1)
    await world.run("kept = client.scatter([1, 2, 3], hash=False)")

    await world.server.want(replicas=0)

    await eventually(lambda: world.server.last.held)
    assert "only copy" in world.server.last.held["c1-worker-0"]
    assert world.server.last.draining == ("c1-worker-0",)
    assert await world.run("answer = client.gather(kept)") == [1, 2, 3]
    assert not _has_ended(world, "c1-worker-0")

    await world.run("del kept")
    await eventually(lambda: _has_ended(world, "c1-worker-0"))


async def test_data_moves_to_the_workers_that_stay(world):
    await world.start()
    await _start_workers(world, 2)
    await world.run(
        "kept = client.map(lambda i: b'x' * i, range(100))\n"
        "distributed.wait(kept)\n"
        "extra = client.scatter({'e': 5}, broadcast=False)"
    )

    await world.server.want(replicas=1)

    await eventually(lambda: len(world.server.last.workers) == 1)
    await eventually(lambda: any(_has_ended(world, name) for name in world.workers))
    assert await world.run("answer = [len(v) for v in client.gather(kept)]") == [
        *range(100)
    ]
    assert await world.run("answer = extra['e'].result()") == 5


async def test_retired_name_that_comes_back_is_refused(world):
    """Row 43 of users.md, for a plain worker and for one with a nanny."""
    await world.start()
    await _start_workers(world, 1)
    await world.server.want(replicas=0)
    await eventually(lambda: _has_ended(world, "c1-worker-0"))

    await world.server.want(replicas=2)
    await world.run("waits = client.submit(lambda: distributed.get_worker().name)")
    for option in ("--no-nanny", "--nanny"):
        back = await world.start_worker(0, option, connected=False)
        await eventually(lambda back=back: back.returncode is not None, within=90)
        assert back.returncode != 0
    assert "refused worker c1-worker-0" in world.log()
    assert world.server.last.workers == ()
    assert world.server.last.unfinished == 1

    await world.start_worker(1)
    assert await world.run("answer = waits.result()") == "c1-worker-1"


async def test_worker_that_its_nanny_restarts_is_welcome(world):
    await world.start()
    await world.server.want(replicas=1)
    await world.start_worker(0, "--nanny")
    pids = (
        "answer = client.run_on_scheduler(lambda dask_scheduler: "
        "[w.pid for w in dask_scheduler.workers.values()])"
    )
    (before,) = await world.run(pids)

    await world.run(f"import os, signal; os.kill({before}, signal.SIGKILL)")

    async def restarted():
        return len(after := await world.run(pids)) == 1 and after != [before]

    await eventually(restarted)
    await eventually(lambda: world.server.last.workers == ("c1-worker-0",))
    assert world.server.last.draining == ()


async def test_retirement_that_fails_says_so_and_is_tried_again(world):
    """Row 44 of users.md: if the scheduler cannot retire, nothing is closed."""
    broken = world.folder / "broken.py"
    broken.write_text(
        "import pathlib\n"
        "def dask_setup(scheduler):\n"
        "    retire = scheduler.retire_workers\n"
        "    async def refuse(*args, **kwargs):\n"
        "        if pathlib.Path('repaired').exists():\n"
        "            return await retire(*args, **kwargs)\n"
        "        raise RuntimeError('out of order')\n"
        "    scheduler.retire_workers = refuse\n"
    )
    await world.start(broken, world.plugin)
    await _start_workers(world, 2)

    await world.server.want(replicas=1)

    await eventually(lambda: world.server.last.held)
    ((name, reason),) = world.server.last.held.items()
    assert "out of order" in reason
    assert not any(_has_ended(world, worker) for worker in world.workers)

    (world.folder / "repaired").touch()
    await eventually(lambda: _has_ended(world, name))
    assert len(world.server.last.workers) == 1


async def test_worker_killed_while_it_is_retired_stops_nothing(world):
    """Row 49 of users.md: one lost connection once ended all scaling."""
    await world.start()
    for ordinal in (0, 2, 4):
        await world.server.want(replicas=2)
        await world.start_worker(ordinal)
        await world.start_worker(ordinal + 1)
        await _busy(world, f"t{ordinal}", f"c1-worker-{ordinal}")
        await _busy(world, f"t{ordinal + 1}", f"c1-worker-{ordinal + 1}")
        await world.server.want(replicas=0)
        await eventually(lambda: len(world.server.last.draining) == 2)
        world.let_go(f"t{ordinal}")
        world.let_go(f"t{ordinal + 1}")
        world.workers[f"c1-worker-{ordinal}"].kill()
        await world.run(f"del t{ordinal}, t{ordinal + 1}")
        await eventually(lambda: world.server.last.draining == ())
    assert world.scheduler.returncode is None
    assert "error in loop" not in world.log()


async def test_busy_worker_is_retired_when_the_drain_timeout_has_passed(world):
    world.environment["DASKFLEET_DRAIN_TIMEOUT"] = "1.5"
    await world.start()
    await _start_workers(world, 2)
    await _busy(world, "a", "c1-worker-0")
    await _busy(world, "b", "c1-worker-1")

    await world.server.want(replicas=1)

    await eventually(lambda: len(world.server.last.workers) == 1)
    await eventually(lambda: world.server.last.draining == ())


async def test_outsiders_are_counted_and_never_touched(world):
    """drop-in.md: workers that outsiders start may join."""
    await world.start()
    await world.server.want(replicas=1)
    await world.start_worker("gpu-1", connected=False)
    await world.start_worker(0)
    await eventually(lambda: world.server.last.outsiders == 1)

    await world.server.want(replicas=0)

    await eventually(lambda: _has_ended(world, "c1-worker-0"))
    await eventually(lambda: world.server.last.workers == ())
    assert world.server.last.outsiders == 1
    assert await world.run("answer = client.submit(abs, -3).result()") == 3


async def test_worker_with_an_actor_goes_last_and_says_why_it_stays(world):
    await world.start()
    await _start_workers(world, 2)
    await world.run(
        "class Counter:\n"
        "    n = 0\n"
        "    def add(self):\n"
        "        self.n += 1\n"
        "        return self.n\n"
        "actor = client.submit(Counter, actor=True, workers=['c1-worker-1']).result()"
    )
    await world.server.want(replicas=1)
    await eventually(lambda: world.server.last.workers == ("c1-worker-1",))
    assert world.server.last.unfinished >= 1

    await world.server.want(replicas=0)

    await eventually(lambda: world.server.last.held)
    assert "actor" in world.server.last.held["c1-worker-1"]
    assert await world.run("answer = actor.add().result()") == 1
