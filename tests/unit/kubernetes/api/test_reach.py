"""Who waits for the API server hears at once when it answers again."""

import asyncio

import pytest

from backends.kubernetes.api.reach import Reach


async def test_an_answer_ends_the_wait_of_those_who_had_none() -> None:
    reach = Reach()
    reach.note_silence()
    waiting = asyncio.create_task(reach.wait(3600))  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    assert not waiting.done()

    reach.note_answer(200)

    await asyncio.wait_for(waiting, 30)
    assert not reach.is_lost


async def test_the_wait_ends_by_itself_while_nothing_answers() -> None:
    reach = Reach()
    reach.note_silence()

    await reach.wait(0.01)

    assert reach.is_lost


async def test_who_is_answered_waits_for_the_whole_delay() -> None:
    reach, loop = Reach(), asyncio.get_running_loop()
    begun = loop.time()

    await reach.wait(0.05)

    assert loop.time() - begun >= 0.05


@pytest.mark.parametrize(
    ("status", "is_lost"), [(200, False), (404, False), (500, False), (503, True)]
)
def test_what_stands_before_an_absent_server_is_no_answer(
    status: int, is_lost: bool
) -> None:
    reach = Reach()

    reach.note_answer(status)

    assert reach.is_lost is is_lost
