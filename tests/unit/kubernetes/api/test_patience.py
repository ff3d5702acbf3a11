"""Failures in a row are waited for ever longer, and told once."""

import asyncio

import pytest
from structlog.testing import capture_logs

from backends.kubernetes.api import patience as module
from backends.kubernetes.api.errors import Call, Transient
from backends.kubernetes.api.patience import Patience
from backends.kubernetes.api.reach import Reach
from gateway.aio.clock import SystemClock

AWAY = Transient(Call("watch", "pods"), "no answer")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that it wanted to sleep; nobody does."""
    seconds: list[float] = []
    really = asyncio.sleep

    async def sleep(delay: float) -> None:
        seconds.append(delay)
        await really(0)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return seconds


def make() -> Patience:
    return Patience(Reach(), SystemClock(), {"kind": "pods"})


async def test_an_outage_is_one_line_and_its_end_another(slept: list[float]) -> None:
    patience = make()

    with capture_logs() as logs:
        for _ in range(9):
            await patience.rest_failed(AWAY)
        patience.hear()
        patience.hear()

    told = [(e["log_level"], e["event"]) for e in logs if e["log_level"] != "debug"]
    assert told == [("warning", "watch failed"), ("info", "watch is back")]
    assert slept


async def test_what_was_heard_makes_the_next_delay_the_first(
    slept: list[float],
) -> None:
    patience = make()
    for _ in range(12):
        await patience.rest_failed(AWAY)
    patience.hear()
    slept.clear()

    await patience.rest_failed(AWAY)

    assert sum(slept) <= module.BASE_S


async def test_a_server_that_asks_for_time_is_given_it(slept: list[float]) -> None:
    busy = Transient(Call("watch", "pods"), "busy", status=429, retry_after_s=7)

    await make().rest_failed(busy)

    assert slept[0] == 7


async def test_watches_that_end_or_expire_at_once_are_not_opened_at_once(
    slept: list[float],
) -> None:
    patience = make()
    patience.begin()

    await patience.rest()
    ended = sum(slept)
    slept.clear()
    for _ in range(40):
        await patience.rest_expired()

    assert ended >= module.BASE_S
    assert sum(slept) > 60


async def test_a_watch_that_lasted_is_opened_again_at_once(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT_S", 0.0)
    patience = make()
    patience.begin()

    await patience.rest()
    assert slept == []
    for _ in range(9):
        await patience.rest_expired()

    assert max(slept) <= module.BASE_S
