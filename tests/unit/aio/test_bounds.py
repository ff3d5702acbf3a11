"""ExpiringMap, Budget and SystemClock."""

import asyncio
from datetime import UTC

import pytest

from gateway.aio.budget import Budget
from gateway.aio.clock import SystemClock
from gateway.aio.limits import ExpiringMap


def test_the_least_recently_used_entry_goes_first():
    entries = ExpiringMap[str, int](2)
    entries.put("a", 1)
    entries.put("b", 2)
    entries.get("a")
    entries.put("c", 3)

    assert [entries.get(key) for key in "abc"] == [1, None, 3]


def test_an_entry_expires_by_its_age_and_reading_does_not_prolong_it():
    now = 0.0
    entries = ExpiringMap[str, int](10, 5, monotonic=lambda: now)
    entries.put("a", 1)
    now = 4.0
    assert entries.get("a") == 1
    now = 5.0

    assert entries.get("a") is None
    assert len(entries) == 0


def test_putting_again_starts_a_new_life():
    now = 0.0
    entries = ExpiringMap[str, int](10, 5, monotonic=lambda: now)
    entries.put("a", 1)
    now = 4.0
    entries.put("a", 2)
    now = 8.0

    assert entries.pop("a") == 2
    assert entries.pop("a") is None


def test_a_map_for_nothing_is_refused():
    with pytest.raises(ValueError, match="max_size"):
        ExpiringMap(0)


async def test_a_budget_ends_the_call_that_outlasts_it():
    budget = Budget(0.01)
    with pytest.raises(TimeoutError):
        async with budget.timeout(60):
            await asyncio.Event().wait()

    assert budget.is_over()
    assert budget.remaining_s() == 0


async def test_one_call_may_be_limited_further():
    budget = Budget(3600)
    with pytest.raises(TimeoutError):
        async with budget.timeout(0.01):
            await asyncio.Event().wait()

    assert not budget.is_over()
    assert budget.deadline > 0


def test_the_system_clock_is_aware_and_steady():
    clock = SystemClock()
    first = clock.monotonic()

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= first
