"""The copy that running schedulers trust follows the operator's file."""

import os

import pytest

from backends.local.trust import TrustCopy
from tests.support.jobs import credentials_of

FIRST = credentials_of("c1").ca_certificate
SECOND = credentials_of("c2").ca_certificate


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "operators" / "site.crt"
    path.parent.mkdir()
    path.write_text(FIRST)
    return path


@pytest.fixture
def trust(tmp_path, source):
    return TrustCopy(source, tmp_path / "api-ca.crt")


def test_the_copy_follows_and_other_users_can_read_it_but_not_write(trust, source):
    before = os.umask(0o077)
    try:
        trust.refresh()
        assert trust.path.read_text() == FIRST
        source.write_text(SECOND + FIRST)
        trust.refresh()
    finally:
        os.umask(before)

    assert trust.path.read_text() == SECOND + FIRST
    assert trust.path.stat().st_mode & 0o777 == 0o644


def test_a_copy_that_is_up_to_date_is_left_and_one_that_is_lost_comes_back(trust):
    trust.refresh()
    before = trust.path.stat()
    trust.refresh()
    assert (trust.path.stat().st_ino, trust.path.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )

    trust.path.unlink()
    trust.refresh()

    assert trust.path.read_text() == FIRST


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text(SECOND[:200]),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.unlink(),
    ],
    ids=["empty", "half", "garbage", "gone"],
)
def test_a_file_that_is_no_certificate_changes_nothing_and_is_told_once(
    trust, source, spoil, capsys
):
    trust.refresh()
    spoil(source)

    trust.refresh()
    trust.refresh()

    assert trust.path.read_text() == FIRST
    assert capsys.readouterr().out.count("cannot be read") == 1
    source.write_text(SECOND)
    trust.refresh()
    assert trust.path.read_text() == SECOND
