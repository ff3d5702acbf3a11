"""How many writes go out at once."""

import asyncio

import pytest

from backends.kubernetes.api.errors import Call, Transient
from backends.kubernetes.controller.limiter import Limiter
from tests.support.eventually import eventually

CALL = Call("create", "pods", "team", "p")


async def use(limiter: Limiter, error: Exception | None = None) -> None:
    async with limiter.slot():
        if error is not None:
            raise error


async def test_it_begins_with_24_and_grows_to_48_and_no_further() -> None:
    limiter = Limiter()
    first = limiter.room

    for _ in range(3000):
        await use(limiter)

    assert (first, limiter.room) == (24, 48)


async def test_a_server_with_too_much_to_do_halves_it_down_to_two() -> None:
    limiter = Limiter()
    busy = Transient(CALL, "busy", status=429, retry_after_s=0.001)
    rooms = []

    for _ in range(5):
        with pytest.raises(Transient):
            await use(limiter, busy)
        rooms.append(limiter.room)

    assert rooms == [12, 6, 3, 2, 2]


async def test_a_network_that_fails_is_no_reason_to_be_slower() -> None:
    limiter = Limiter()

    with pytest.raises(Transient):
        await use(limiter, Transient(CALL, "no answer"))

    assert limiter.room == 24


async def test_never_more_are_on_their_way_than_there_is_room() -> None:
    limiter, inside, most = Limiter(), 0, 0
    release = asyncio.Event()

    async def write() -> None:
        nonlocal inside, most
        async with limiter.slot():
            inside += 1
            most = max(most, inside)
            await release.wait()
            inside -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(60):
            tasks.create_task(write())
        await eventually(lambda: inside == 24)
        release.set()

    assert inside == 0
    assert most <= 48


async def test_who_waits_for_room_can_be_cancelled() -> None:
    limiter = Limiter()
    release = asyncio.Event()

    async def write() -> None:
        async with limiter.slot():
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(24):
            tasks.create_task(write())
        waiting = tasks.create_task(use(limiter))
        await eventually(lambda: limiter._active == 24)
        waiting.cancel()
        release.set()

    await use(limiter)
    assert limiter._active == 0
