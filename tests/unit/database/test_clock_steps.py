"""The wall clock is set by an hour, either way, while clusters start, run and end."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from backends.database.actions import Plan
from backends.database.launcher import JobState, JobView
from backends.database.observe import Memory
from backends.database.observed import Trouble
from backends.database.plan import plan
from backends.database.records import BeatRecord, WorkerStage
from backends.database.steps import StepWatch
from gateway.domain.lifetime import decide_stop
from tests.support.builders import FakeClock
from tests.support.database_rows import NOW_MS, RUNNING, rows, seen, worker_ref

HOUR_MS = 3_600_000
RETENTION_MS = 86_400_000
JUST_RUNS = JobView(JobState.RUNNING, started_ms=NOW_MS - 2_000)


def plan_at(made, observed, now_ms) -> Plan:
    return plan(made.build(), observed, now_ms, retention_ms=RETENTION_MS)


def test_a_clock_that_is_not_set_has_run_evenly_since_the_start():
    clock = FakeClock()
    watch = StepWatch(clock)
    begin = clock.now()

    for seconds in (0.0, 1.0, 3600.0, 86400.0):
        clock.advance(seconds)
        clock.time += timedelta(seconds=1)  # as NTP slews it, or worse
        assert watch.look() is None

    assert watch.steady_since == begin


@pytest.mark.parametrize("hours", [1, -1, 24, -0.001])
def test_a_step_is_noticed_once_and_counted_from(hours):
    clock = FakeClock()
    watch = StepWatch(clock)
    clock.advance(10)
    clock.time += timedelta(hours=hours)

    assert watch.look() == timedelta(hours=hours)
    stepped = clock.now()
    clock.advance(10)
    assert watch.look() is None

    assert watch.steady_since == stepped


def test_a_scheduler_that_starts_is_not_late_by_the_step():
    starting = rows(scheduler_start_timeout_s=60).cluster(
        launched=True, started_ms=NOW_MS - 2_000
    )
    late_ms = NOW_MS + HOUR_MS
    noticed = seen(JUST_RUNS, serving_since_ms=late_ms)

    assert plan_at(starting, noticed, late_ms).change is None
    patient = plan_at(starting, noticed, late_ms + 59_000)
    over = plan_at(starting, noticed, late_ms + 60_000)

    assert patient.change is None
    assert over.change is not None
    assert over.change.cluster.is_failing


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_a_step_makes_no_scheduler_silent(step_ms):
    heard = rows().running(1).worker(WorkerStage.CONNECTED).heard()
    now_ms = NOW_MS + step_ms
    noticed = seen(workers={0: RUNNING}, serving_since_ms=now_ms)

    calm = plan_at(heard, noticed, now_ms)
    silent = plan_at(heard, noticed, now_ms + 181_000)

    assert calm == Plan(look_again_ms=now_ms + 180_000)
    assert silent.change is not None
    assert silent.change.cluster.is_silent


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_facts_from_before_a_step_end_no_cluster(step_ms):
    """They were told when the cluster was idle; it may have been busy since."""
    idle = rows().running(0).config(idle_timeout_s=60, no_client_timeout_s=60)
    told = idle.heard(idle_s=70, no_client_s=70).build()

    beat = told.find_beat(NOW_MS + step_ms)

    assert decide_stop(told.spec.lifetimes, age_s=100, beat=beat) is None
    assert decide_stop(told.spec.lifetimes, age_s=100, beat=told.find_beat(NOW_MS))


def test_a_server_whose_clock_is_a_little_ahead_is_believed():
    beat = BeatRecord(NOW_MS, idle_s=3)

    assert beat.seen_at(NOW_MS - 9_000).age_s == 0
    assert beat.seen_at(NOW_MS - 11_000).age_s == math.inf


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_what_a_server_remembers_is_counted_from_the_step(step_ms):
    ref = worker_ref(0)
    memory = Memory(
        absent_since_ms={ref: NOW_MS - 100},
        asked_ms={ref: NOW_MS - 200},
        troubles={ref: Trouble("no such command", NOW_MS - 300)},
    )

    memory.rebase(NOW_MS - 1000, NOW_MS)  # nothing was set: nothing changes
    assert memory.asked_ms == {ref: NOW_MS - 200}

    now_ms = NOW_MS + step_ms
    memory.rebase(now_ms, now_ms)
    memory.rebase(now_ms, now_ms + 50)

    assert memory.absent_since_ms == memory.asked_ms == {ref: now_ms}
    assert memory.troubles == {ref: Trouble("no such command", now_ms)}


def test_a_stop_goes_on_after_the_clock_was_set_back():
    """Workers go first, for some seconds; not for the hour that came again."""
    ending = rows().running(1).worker(WorkerStage.CONNECTED).cluster(active=False)
    memory = Memory(asked_ms={worker_ref(0): NOW_MS})
    now_ms = NOW_MS - HOUR_MS
    memory.rebase(now_ms, now_ms)

    observed = replace(
        seen(workers={0: RUNNING}), asked_ms=memory.asked_ms, serving_since_ms=now_ms
    )
    early = plan_at(ending, observed, now_ms + 1_000)
    later = plan_at(ending, observed, now_ms + 6_000)

    assert [action.ref.name for action in early.actions] == ["c1-worker-0"]
    assert {action.ref.name for action in later.actions} == {"c1-worker-0", "scheduler"}
