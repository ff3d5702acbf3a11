import asyncio

from structlog.testing import capture_logs

from gateway.aio.backoff import Backoff
from gateway.aio.tasks import Supervisor
from tests.support.eventually import eventually


def fast() -> Backoff:
    return Backoff(0.001, 0.001)


async def test_a_task_that_fails_is_logged_with_its_stack_and_started_again():
    starts = 0

    async def fail_twice():
        nonlocal starts
        starts += 1
        if starts < 3:
            raise OSError("disk on fire")

    with capture_logs() as logs:
        async with Supervisor(backoff=fast) as supervisor:
            supervisor.start("poll", fail_twice)
            await eventually(lambda: starts == 3, within=30)

    assert [(line["event"], line["task"]) for line in logs] == [
        ("task failed", "poll")
    ] * 2
    assert all(line["exc_info"] for line in logs)


async def test_at_the_end_of_the_block_every_task_was_cancelled_and_awaited():
    ended = []

    async def wait_for_ever(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async with Supervisor() as supervisor:
        supervisor.start("a", lambda: wait_for_ever("a"))
        supervisor.start("b", lambda: wait_for_ever("b"))
        await asyncio.sleep(0)

    assert sorted(ended) == ["a", "b"]


async def test_a_task_that_waits_for_its_restart_ends_with_the_block():
    async def fail():
        raise OSError("no")

    with capture_logs() as logs:
        async with Supervisor(backoff=lambda: Backoff(3600, 3600)) as supervisor:
            supervisor.start("poll", fail)
            await eventually(lambda: len(logs) == 1, within=30)

    assert supervisor._tasks == set()
