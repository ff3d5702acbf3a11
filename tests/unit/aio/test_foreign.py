import asyncio

import pytest

from gateway.aio.foreign import ForeignExit, contained


class OwnExit(BaseException):
    """As a site's own code may define it."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), OwnExit("x")])
async def test_what_would_end_the_process_ends_the_call_alone(error):
    with pytest.raises(ForeignExit, match=type(error).__name__) as caught, contained():
        raise error

    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("x"), GeneratorExit()])
async def test_what_ends_a_call_only_passes_as_it_is(error):
    with pytest.raises(type(error)), contained():
        raise error


async def test_awaiting_what_was_cancelled_is_no_cancellation_of_the_caller():
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()

    with pytest.raises(ForeignExit, match="cancelled"), contained():
        await cancelled


async def test_a_cancellation_and_a_timeout_pass():
    async def wait_for_ever():
        with contained():
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait_for_ever(), 0.01)
