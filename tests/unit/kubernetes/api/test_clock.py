"""The API server's time, whatever this machine's clock says."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from backends.kubernetes.api.clock import ServerClock
from tests.support.builders import FakeClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def local() -> FakeClock:
    return FakeClock(NOON)


def tell(clock: ServerClock, time: datetime) -> None:
    clock.note(format_datetime(time, usegmt=True), clock.monotonic())


def test_before_the_first_answer_it_is_the_machines(local: FakeClock) -> None:
    assert ServerClock(local).now() == NOON


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wall_clock_that_steps_moves_nothing(local: FakeClock, hours: int) -> None:
    clock = ServerClock(local)
    tell(clock, NOON)

    local.time += timedelta(hours=hours)
    local.advance(7)

    assert clock.now() == NOON + timedelta(seconds=7)
    assert clock.monotonic() == local.monotonic()


def test_a_server_that_is_an_hour_off_is_followed(local: FakeClock) -> None:
    clock, ahead = ServerClock(local), NOON + timedelta(hours=1)

    tell(clock, ahead)
    after_first = clock.now()
    tell(clock, NOON)

    assert after_first == ahead
    assert clock.now() == NOON


def test_of_cut_off_seconds_the_latest_counts(local: FakeClock) -> None:
    clock = ServerClock(local)
    tell(clock, NOON)
    local.advance(0.2)
    tell(clock, NOON + timedelta(seconds=1))
    local.advance(0.9)
    tell(clock, NOON + timedelta(seconds=1))

    assert clock.now() == NOON + timedelta(seconds=1.9)


def test_slow_answers_and_nonsense_say_nothing(local: FakeClock) -> None:
    clock, late = ServerClock(local), NOON + timedelta(hours=3)
    sent = clock.monotonic()
    local.advance(5)

    clock.note(format_datetime(late, usegmt=True), sent)
    clock.note("", clock.monotonic())
    clock.note("yesterday", clock.monotonic())

    assert clock.now() == local.now()
