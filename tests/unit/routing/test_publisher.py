"""Pacing of writes: at once when idle, then coalesced, the last one wins."""

import asyncio
import threading

import pytest

from backends.routing.publisher import Publisher
from tests.support.eventually import eventually


async def test_a_first_value_is_written_at_once() -> None:
    written: list[int] = []
    publisher = Publisher[int](written.append)

    await publisher.publish(1, interval_s=3600)

    assert written == [1]


async def test_values_that_come_too_fast_are_coalesced_and_the_last_wins() -> None:
    written: list[int] = []
    publisher = Publisher[int](written.append)
    await publisher.publish(0, interval_s=0.2)

    async with asyncio.TaskGroup() as group:
        for value in range(1, 51):
            group.create_task(publisher.publish(value, interval_s=0.2))

    assert written == [0, 50]


async def test_a_publish_returns_only_once_its_value_or_a_newer_one_is_written() -> (
    None
):
    gate = threading.Event()
    written: list[int] = []

    def write(value: int) -> None:
        gate.wait(30)
        written.append(value)

    publisher = Publisher[int](write)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(publisher.publish(1, interval_s=0))
        second = group.create_task(publisher.publish(2, interval_s=0))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(first), 0.1)
        assert not second.done()
        gate.set()

    assert written[-1] == 2


async def test_a_failed_write_is_the_callers_and_the_next_one_writes() -> None:
    outcomes = iter([OSError("disk full"), None])
    written: list[int] = []

    def write(value: int) -> None:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        written.append(value)

    publisher = Publisher[int](write)
    with pytest.raises(OSError, match="disk full"):
        await publisher.publish(1, interval_s=0)
    await publisher.publish(2, interval_s=0)

    assert written == [2]


async def test_a_caller_that_is_cancelled_holds_up_no_other() -> None:
    written: list[int] = []
    publisher = Publisher[int](written.append)
    await publisher.publish(0, interval_s=0.5)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(publisher.publish(1, interval_s=0))
        other = group.create_task(publisher.publish(2, interval_s=0))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        await other

    assert written == [0, 2]


async def test_an_older_value_is_never_written_after_a_newer_one() -> None:
    """A cancelled caller leaves its thread behind, in the middle of a write."""
    gate, began = threading.Event(), threading.Event()
    written: list[int] = []

    def write(value: int) -> None:
        if value == 1:
            began.set()
            gate.wait(30)
        written.append(value)

    publisher = Publisher[int](write)
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(publisher.publish(1, interval_s=0))
        await eventually(began.is_set)
        slow.cancel()
        newer = group.create_task(publisher.publish(2, interval_s=0))
        await asyncio.wait({newer}, timeout=0.1)
        gate.set()

    assert written == [1, 2]
