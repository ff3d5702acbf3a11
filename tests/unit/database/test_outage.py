import structlog

from backends.database.launcher import LauncherAway
from backends.database.outage import Outage
from gateway.domain.errors import Unavailable
from tests.support.builders import FakeClock


def away() -> Unavailable:
    error = Unavailable("the database is not available")
    error.__cause__ = OSError("10.0.0.7 refused")
    return error


def test_an_outage_is_told_at_its_begin_now_and_then_and_at_its_end():
    clock = FakeClock()
    outage = Outage(clock)

    with structlog.testing.capture_logs() as lines:
        for _ in range(70):
            outage.note(away())
            clock.advance(1)
        assert outage.is_on
        outage.note_answer()
        outage.note_answer()

    assert not outage.is_on
    assert [line["event"] for line in lines] == [
        "database away",
        "database away",
        "database away",
        "database answers again",
    ]
    assert lines[0]["cause"] == "OSError"
    assert lines[-1]["away_s"] == 70


def test_a_second_outage_is_told_at_once():
    outage = Outage(FakeClock())
    with structlog.testing.capture_logs() as lines:
        outage.note(away())
        outage.note_answer()
        outage.note(away())

    assert [line["event"] for line in lines].count("database away") == 2


def test_what_the_launcher_cannot_do_is_not_laid_to_the_database():
    clock = FakeClock()
    outage = Outage(clock)

    with structlog.testing.capture_logs() as lines:
        for _ in range(40):
            outage.note(LauncherAway("no space left on device: /srv/clusters"))
            outage.note_answer()
            clock.advance(1)

    assert not outage.is_on
    assert [line["event"] for line in lines] == ["launcher fails"] * 2
    assert lines[0]["error"] == "no space left on device: /srv/clusters"
