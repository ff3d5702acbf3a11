import os

import pytest
from argon2 import PasswordHasher
from structlog.testing import capture_logs

from gateway.auth.passwords import PasswordFile, hash_password, parse_password_file
from gateway.domain.errors import ConfigError
from gateway.domain.user import User

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HASH = CHEAP.hash("open sesame")


def test_a_line_may_have_groups_and_a_role():
    accounts = parse_password_file(
        f"# the lab\n\nalice:{HASH}\nbob:{HASH}:lab, gpu\nroot:{HASH}::admin\n"
    )

    assert [a.user for a in accounts.values()] == [
        User("alice"),
        User("bob", ["gpu", "lab"]),
        User("root", admin=True),
    ]


def test_all_bad_lines_are_told_at_once_without_their_hashes():
    text = "\n".join(
        [
            "alice",
            "bob:plain-text-password",
            f":{HASH}",
            f"eve:{HASH}::wizard",
            f"a:b:c:d:{HASH}",
            f"dup:{HASH}",
            f"dup:{HASH}",
            "big:$argon2id$v=19$m=9999999,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
        ]
    )

    with pytest.raises(ConfigError) as caught:
        parse_password_file(text)

    lines = [p.partition(":")[0] for p in caught.value.problems]
    assert lines == [f"line {n}" for n in (1, 2, 3, 4, 5, 7, 8)]
    assert "plain-text-password" not in str(caught.value)
    assert HASH not in str(caught.value)


def test_a_password_is_checked_against_its_hash(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"alice:{HASH}\n")
    file = PasswordFile(path)
    file.load()

    assert file.check("alice", ("open sesame",)) == User("alice")
    assert file.check("alice", ("wrong", "open sesame")) == User("alice")
    assert file.check("alice", ("wrong",)) is None
    assert file.check("nobody", ("open sesame",)) is None


def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"alice:{HASH}\n")
    file = PasswordFile(path)
    file.load()
    assert not file.refresh()

    path.write_text(f"bob:{HASH}\nroot:{HASH}\n")
    assert file.refresh()
    assert file.check("alice", ("open sesame",)) is None

    path.write_text("broken\n")
    with capture_logs() as logs:
        assert not file.refresh()
        assert not file.refresh()
    path.unlink()
    with capture_logs() as more:
        assert not file.refresh()

    assert [line["event"] for line in logs + more] == [
        "password file cannot be used"
    ] * 2
    assert file.check("bob", ("open sesame",)) == User("bob")


@pytest.mark.parametrize("content", [None, b"\xff", b"x" * 10])
def test_a_file_that_cannot_be_used_at_first_stops_the_start(tmp_path, content):
    path = tmp_path / "passwords"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=os.fspath(path)):
        PasswordFile(path).load()


def test_hashes_are_argon2id():
    assert hash_password("open sesame").startswith("$argon2id$")
