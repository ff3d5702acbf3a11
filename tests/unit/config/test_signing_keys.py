"""The file of signing keys."""

import base64
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.config.signing_keys import read_signing_keys
from gateway.domain.errors import ConfigError


def test_the_file_is_made_once_and_only_the_owner_may_read_it(tmp_path) -> None:
    path = tmp_path / "deep" / "signing-keys"

    first = read_signing_keys(path)

    assert read_signing_keys(path) == first
    assert [len(key) for key in first] == [32]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["signing-keys"]


def test_gateways_that_start_at_once_agree(tmp_path) -> None:
    path = tmp_path / "signing-keys"

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(read_signing_keys, [path] * 32))

    assert len(found) == 1


def test_keys_are_rotated_by_a_line_in_front(tmp_path) -> None:
    path = tmp_path / "signing-keys"
    (old,) = read_signing_keys(path)
    new = b"n" * 32
    path.write_text(base64.urlsafe_b64encode(new).decode() + "\n" + path.read_text())

    assert read_signing_keys(path) == (new, old)


@pytest.mark.parametrize("content", ["", "secret", "c2hvcnQ=", "\N{BULLET}"])
def test_a_file_that_holds_something_else_is_refused(tmp_path, content) -> None:
    path = tmp_path / "signing-keys"
    path.write_text(content)

    with pytest.raises(ConfigError, match="signing_key_file") as error:
        read_signing_keys(path)
    assert content == "" or content not in str(error.value)


def test_a_folder_that_cannot_be_made_is_told(tmp_path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="signing_key_file"):
        read_signing_keys(tmp_path / "file" / "signing-keys")
