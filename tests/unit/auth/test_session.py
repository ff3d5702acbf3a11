import pytest

from gateway.auth.session import Sessions
from gateway.domain.user import User
from tests.support.builders import ALICE, FakeClock

KEY = b"k" * 32


@pytest.fixture
def clock():
    return FakeClock()


def test_a_session_is_whom_it_was_issued_for_on_every_replica(clock):
    value = Sessions([KEY], 300, clock).issue(User("zoë", ["b", "a"], admin=True))

    assert Sessions([KEY], 300, clock).read(value) == User(
        "zoë", ["a", "b"], admin=True
    )


def test_w36_a_session_ends_by_its_age_however_often_it_is_used(clock):
    sessions = Sessions([KEY], 300, clock)
    value = sessions.issue(ALICE)
    for _ in range(2):
        clock.advance(149)
        assert sessions.read(value) == ALICE
    clock.advance(2)

    assert sessions.read(value) is None


def test_w36_a_new_login_carries_new_groups(clock):
    sessions = Sessions([KEY], 300, clock)
    sessions.issue(User("alice", ["old"], admin=True))

    assert sessions.read(sessions.issue(User("alice", ["new"]))) == User(
        "alice", ["new"]
    )


def test_a_session_from_the_future_is_not_believed(clock):
    sessions = Sessions([KEY], 300, clock)
    value = sessions.issue(ALICE)
    clock.advance(-61)

    assert sessions.read(value) is None


@pytest.mark.parametrize("value", ["", ".", "a.b", "x" * 10_000, "é", "\ud800"])
def test_no_other_text_is_a_session(clock, value):
    assert Sessions([KEY], 300, clock).read(value) is None


def test_without_an_age_there_are_no_sessions(clock):
    assert Sessions([KEY], 0, clock).issue(ALICE) is None


def test_a_user_in_too_many_groups_for_a_cookie_gets_no_session(clock):
    groups = [f"a group with a long name, number {i}" for i in range(200)]

    assert Sessions([KEY], 300, clock).issue(User("alice", groups)) is None
