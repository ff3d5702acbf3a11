import pytest

from backends.database.actions import find_earliest
from backends.database.launcher import JobState
from backends.database.observed import LOST_AFTER_MS, Observed, describe_end
from tests.support.database_rows import NOW_MS, RUNNING, SCHEDULER, ended, worker_ref


def test_a_job_that_nobody_mentions_is_absent():
    assert Observed().view(SCHEDULER).state is JobState.ABSENT
    assert Observed(jobs={SCHEDULER: RUNNING}).view(SCHEDULER) is RUNNING


def test_absence_counts_from_when_it_was_first_met():
    observed = Observed(absent_since_ms={SCHEDULER: NOW_MS - 4000})

    assert observed.lost_at_ms(SCHEDULER, NOW_MS) == NOW_MS - 4000 + LOST_AFTER_MS
    assert observed.lost_at_ms(worker_ref(0), NOW_MS) == NOW_MS + LOST_AFTER_MS


def test_a_deadline_counts_from_the_start_or_from_when_the_gateway_was_there():
    assert Observed().overdue_at_ms(1000, 2) == 3000
    assert Observed(serving_since_ms=5000).overdue_at_ms(1000, 2) == 7000


@pytest.mark.parametrize(
    ("code", "want"),
    [
        (0, "ended with exit status 0"),
        (-11, "was ended by SIGSEGV"),
        (-250, "was ended by signal 250"),
        (None, "ended; its exit status is not known"),
    ],
)
def test_an_end_is_described_for_people(code, want):
    assert describe_end(ended(code)) == want


def test_the_launchers_own_words_are_added():
    assert (
        describe_end(ended(1, "node failed")) == "ended with exit status 1: node failed"
    )


def test_the_earliest_of_no_instants_is_none():
    assert find_earliest([None, None]) is None
    assert find_earliest([3, None, 2]) == 2
