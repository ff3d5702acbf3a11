import base64
import stat
from dataclasses import replace

import pytest

from backends.database.vault import Vault, parse_keys, read_key_file
from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import ConfigError

OLD, NEW = b"0" * 32, b"1" * 32

CREDENTIALS = Credentials(
    ca_certificate="ca",
    ca_key="ca key",
    client=KeyPair("client", "client key"),
    scheduler=KeyPair("scheduler", "scheduler key"),
    worker=KeyPair("worker", "worker key"),
    token="a token that is no secret",
)


def test_what_is_sealed_can_be_opened_and_not_read():
    sealed = Vault([OLD]).seal(CREDENTIALS)

    assert Vault([OLD]).open(sealed) == CREDENTIALS
    assert b"key" not in sealed
    assert b"token" not in base64.urlsafe_b64decode(sealed)


def test_keys_are_rotated_by_putting_a_new_one_in_front():
    old = Vault([OLD]).seal(CREDENTIALS)
    both = Vault([NEW, OLD])

    assert both.open(old) == CREDENTIALS
    assert not both.is_current(old)
    fresh = both.seal(CREDENTIALS)
    assert both.is_current(fresh)
    assert Vault([NEW]).open(fresh) == CREDENTIALS


def test_a_wrong_key_is_an_error_that_names_the_setting():
    sealed = Vault([OLD]).seal(CREDENTIALS)

    with pytest.raises(ConfigError, match=r"DBBackendBase\.db_encrypt_keys") as caught:
        Vault([NEW]).open(sealed)

    assert "DASK_GATEWAY_ENCRYPT_KEYS" in str(caught.value)


def test_keys_are_known_by_what_they_once_sealed():
    mark = Vault([OLD]).make_canary()

    Vault([NEW, OLD]).check_canary(mark)
    with pytest.raises(ConfigError):
        Vault([NEW]).check_canary(mark)


def test_no_secret_is_in_a_repr():
    vault = Vault([OLD])

    assert repr(vault) == "Vault(...)"
    assert "0000" not in repr(vars(vault))
    assert "key'" not in repr(replace(CREDENTIALS))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0123456789abcdef0123456789abcdef", id="32-characters"),
        pytest.param(bytes(range(32)), id="32-bytes"),
        pytest.param(base64.urlsafe_b64encode(b"\xff" * 32).decode(), id="base64"),
    ],
)
def test_the_peers_forms_of_a_key_are_taken(text):
    (key,) = parse_keys([text])

    assert len(key) == 32


@pytest.mark.parametrize(
    "text", ["", "short", "x" * 44, base64.urlsafe_b64encode(b"x" * 31).decode(), "ü"]
)
def test_a_key_that_is_none_is_named_by_its_place_and_not_shown(text):
    with pytest.raises(ConfigError) as caught:
        parse_keys(["0" * 32, text])

    (problem,) = caught.value.problems
    assert problem.startswith("DBBackendBase.db_encrypt_keys: key 2 must be")
    assert not text or text not in problem


def test_all_wrong_keys_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_keys(["a", "b"])

    assert len(caught.value.problems) == 2


def test_a_key_file_is_made_once_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "keys"

    first = read_key_file(path)
    again = read_key_file(path)

    assert first == again
    assert len(first[0]) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["keys"]


def test_of_two_that_make_the_key_file_both_have_the_first_ones(tmp_path):
    path = tmp_path / "keys"
    other = base64.urlsafe_b64encode(NEW) + b"\n"

    class LatePath(type(path)):
        def exists(self) -> bool:  # it appears just after we looked
            is_there = super().exists()
            if not is_there:
                path.write_bytes(other)
            return is_there

    assert read_key_file(LatePath(path)) == (NEW,)


def test_several_keys_in_a_file_are_read_in_order(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(base64.urlsafe_b64encode(NEW) + b"\n" + OLD + b"\n")

    assert read_key_file(path) == (NEW, OLD)


@pytest.mark.parametrize(("text", "want"), [(b"", "no key"), (b"nonsense", "key 1")])
def test_a_key_file_that_is_broken_is_named(tmp_path, text, want):
    path = tmp_path / "keys"
    path.write_bytes(text)

    with pytest.raises(ConfigError, match=want) as caught:
        read_key_file(path)

    assert str(path) in str(caught.value)
