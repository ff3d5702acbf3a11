import asyncio

import pytest

from gateway.aio.queue import KeyedQueue
from tests.support.eventually import eventually


async def test_a_key_woken_many_times_is_handed_out_once():
    queue = KeyedQueue[str]()
    for _ in range(5):
        queue.wake("a")
    queue.wake("b")

    got = [await queue.get(), await queue.get()]

    assert got == ["a", "b"]
    assert queue._ready.empty()


async def test_a_key_woken_during_its_work_comes_back_after_done_and_not_before():
    queue = KeyedQueue[str]()
    queue.wake("a")
    key = await queue.get()
    queue.wake("a")
    queue.wake("a")

    assert queue._ready.empty()
    queue.done(key)

    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_it_tells_how_long_a_key_has_waited():
    queue, loop = KeyedQueue[str](), asyncio.get_running_loop()
    begun = loop.time()
    queue.wake("a")
    await eventually(lambda: loop.time() - begun > 0.02, every=0.01)

    waited_s = queue.waited_s(await queue.get())

    assert 0.02 < waited_s <= loop.time() - begun


async def test_two_workers_never_hold_the_same_key():
    queue = KeyedQueue[int]()
    held: set[int] = set()
    looks = 0

    async def work():
        nonlocal looks
        while True:
            key = await queue.get()
            assert key not in held
            held.add(key)
            await asyncio.sleep(0)
            held.discard(key)
            looks += 1
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work()) for _ in range(4)]
        for _ in range(50):
            for key in range(3):
                queue.wake(key)
            await asyncio.sleep(0)
        await eventually(lambda: len(queue) == 0)
        for worker in workers:
            worker.cancel()

    assert looks >= 3


async def test_of_two_timers_the_earlier_one_is_kept():
    queue = KeyedQueue[str]()
    queue.wake_after("a", 3600)
    queue.wake_after("a", 0.01)
    queue.wake_after("a", 7200)

    assert await asyncio.wait_for(queue.get(), 30) == "a"
    assert queue._timers == {}


async def test_a_delay_of_nothing_wakes_at_once():
    queue = KeyedQueue[str]()
    queue.wake_after("a", 0)

    assert await queue.get() == "a"


async def test_closing_cancels_timers():
    queue = KeyedQueue[str]()
    queue.wake_after("a", 3600)
    queue.close()

    assert queue._timers == {}


async def test_done_of_a_key_that_was_not_handed_out_is_an_error():
    with pytest.raises(KeyError):
        KeyedQueue[str]().done("a")


async def test_a_cancelled_get_loses_no_key():
    queue = KeyedQueue[str]()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.wake("a")
        waiting.cancel()

    assert await asyncio.wait_for(queue.get(), 30) == "a"
