"""When a condition changes, and which changes are worth a write at once."""

import msgspec
import pytest

from backends.kubernetes.crd.values import ClusterStatus, Condition, WorkersStatus
from backends.kubernetes.planning.conditions import (
    ConditionType,
    Fact,
    build_conditions,
    find_blocker,
    is_urgent,
)
from gateway.domain.cluster import ClusterPhase
from tests.support.kube_situations import RUNNING_STATUS, later

READY = ConditionType.WORKERS_READY


def build(before=(), *, seconds=0, generation=1, **facts):
    named = {ConditionType[name]: fact for name, fact in facts.items()}
    return build_conditions(before, named, generation=generation, now=later(seconds))


def test_the_time_of_transition_is_that_of_the_status_alone() -> None:
    first = build(WORKERS_READY=Fact(holds=False, reason="Starting"))
    told = build(
        first,
        seconds=5,
        generation=2,
        WORKERS_READY=Fact(holds=False, reason="Unschedulable", message="m"),
    )
    held = build(told, seconds=9, WORKERS_READY=Fact(holds=True, reason="AllReady"))

    assert [c[0].last_transition_time for c in (first, told, held)] == [
        later(0),
        later(0),
        later(9),
    ]
    assert (told[0].reason, told[0].message, told[0].observed_generation) == (
        "Unschedulable",
        "m",
        2,
    )


def test_what_is_not_spoken_of_stays_and_all_are_in_order() -> None:
    before = build(WORKERS_READY=Fact(holds=True, reason="AllReady"))

    after = build(before, seconds=5, SPEC_VALID=Fact(holds=True, reason="Accepted"))

    assert [c.type for c in after] == ["SpecValid", "WorkersReady"]
    assert after[1] == before[0]


def test_a_long_message_is_cut_where_the_schema_would_refuse_it() -> None:
    fact = Fact(holds=False, reason="X", message="m" * 5000)

    assert len(build(WORKERS_READY=fact)[0].message) == 1024


def test_the_first_that_does_not_hold_is_in_the_way() -> None:
    conditions = build(
        SPEC_VALID=Fact(holds=True, reason="Accepted"),
        ROUTES_READY=Fact(holds=False, reason="WaitingForSync"),
        WORKERS_READY=Fact(holds=False, reason="WaitingForScheduler"),
    )

    assert find_blocker(conditions) == conditions[1]
    assert find_blocker(conditions[:1]) is None


def a_condition(status, reason):
    return (Condition(type=str(READY), status=status, reason=reason),)


def changed(**changes):
    return msgspec.structs.replace(RUNNING_STATUS, **changes)


HOLDING = changed(conditions=a_condition("True", "AllReady"))
STARTING = changed(conditions=a_condition("False", "Starting"))


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(RUNNING_STATUS, RUNNING_STATUS, False, id="nothing"),
        pytest.param(
            RUNNING_STATUS,
            changed(workers=WorkersStatus(ready=3, starting=1, wanted=4)),
            False,
            id="numbers",
        ),
        pytest.param(RUNNING_STATUS, changed(message="m"), False, id="words"),
        pytest.param(STARTING, HOLDING, False, id="comes to hold"),
        pytest.param(
            RUNNING_STATUS,
            changed(conditions=a_condition("False", "Starting")),
            False,
            id="progress",
        ),
        pytest.param(HOLDING, STARTING, True, id="no longer holds"),
        pytest.param(
            STARTING,
            changed(conditions=a_condition("False", "QuotaExceeded")),
            True,
            id="went wrong",
        ),
        pytest.param(
            RUNNING_STATUS, changed(phase=ClusterPhase.STOPPED), True, id="phase"
        ),
        pytest.param(
            RUNNING_STATUS,
            changed(workers=WorkersStatus(members="0")),
            True,
            id="worker set",
        ),
        pytest.param(
            RUNNING_STATUS,
            changed(workers=WorkersStatus(failures=1)),
            True,
            id="failure",
        ),
        pytest.param(
            ClusterStatus(), ClusterStatus(start_time=later(0)), True, id="first"
        ),
    ],
)
def test_what_can_wait(before, after, want) -> None:
    assert is_urgent(before, after) is want
