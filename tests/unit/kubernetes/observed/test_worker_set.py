"""The worker set as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kubernetes.crd.values import WorkersStatus
from backends.kubernetes.observed.worker_set import (
    WorkerSet,
    format_ordinals,
    format_worker_set,
    parse_ordinals,
    parse_worker_set,
)


@given(st.frozensets(st.integers(0, 300)), st.integers(0, 9))
def test_what_is_written_is_read_back(members, epoch) -> None:
    worker_set = WorkerSet(max(members, default=-1) + 1, members, epoch)

    status = format_worker_set(worker_set, WorkersStatus(ready=3))

    assert parse_worker_set(status) == worker_set
    assert status.ready == 3


@given(st.frozensets(st.integers(0, 30)))
def test_text_has_a_range_for_each_run(members) -> None:
    text = format_ordinals(members)

    runs = sum(n - 1 not in members for n in members)
    assert len(text.split(",") if text else []) == runs
    assert parse_ordinals(text) == members


def test_a_set_that_was_never_written_is_none_and_an_empty_one_is_one() -> None:
    assert parse_worker_set(WorkersStatus()) is None
    assert parse_worker_set(WorkersStatus(members="")) == WorkerSet()


@pytest.mark.parametrize(
    "status",
    [
        WorkersStatus(next=1, members="x"),
        WorkersStatus(next=1, members="0,"),
        WorkersStatus(next=1, members="0\n"),
        WorkersStatus(next=1, members="5"),
        WorkersStatus(next=9**9, members="0-4000000000"),
    ],
    ids=["text", "comma", "line", "above next", "a hostile range"],
)
def test_a_set_that_someone_else_wrote_is_lost(status) -> None:
    assert parse_worker_set(status) is None


def test_members_that_were_never_given_out_are_refused() -> None:
    with pytest.raises(ValueError, match="members must be >= 0 and < 3, got"):
        WorkerSet(3, frozenset({3}))
