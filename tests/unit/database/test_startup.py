import asyncio
import stat

import pytest

from backends.database.startup import make_settings
from gateway.domain.errors import ConfigError
from tests.support.database import KEY, make_backend


def test_the_key_file_is_made_on_first_start_in_the_data_directory(tmp_path):
    folder = tmp_path / "data"
    settings = {"db_encrypt_keys": [], "data_directory": str(folder)}
    url = f"sqlite:///{folder}/db.sqlite"

    first = make_settings(make_backend(url, **settings))
    again = make_settings(make_backend(url, **settings))

    assert first.keys == again.keys
    assert stat.S_IMODE((folder / "encrypt-keys").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_keys_that_are_given_make_no_file(tmp_path):
    backend = make_backend("sqlite://", data_directory=str(tmp_path))

    assert make_settings(backend).keys == (KEY.encode(),)
    assert list(tmp_path.iterdir()) == []


def test_a_database_in_memory_needs_no_key_that_lasts():
    first = make_settings(make_backend("sqlite://", db_encrypt_keys=[]))
    other = make_settings(make_backend("sqlite://", db_encrypt_keys=[]))

    assert first.keys != other.keys


def test_without_a_place_for_a_key_file_keys_must_be_given():
    backend = make_backend("postgresql://u@h/d", db_encrypt_keys=[])

    with pytest.raises(ConfigError, match="db_encrypt_keys"):
        make_settings(backend)


def test_the_folder_of_a_database_is_made(tmp_path):
    make_settings(make_backend(f"sqlite:///{tmp_path}/new/db.sqlite"))

    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_keys_are_not_in_a_repr():
    settings = make_settings(make_backend("sqlite://"))

    assert KEY not in repr(settings)


async def test_a_setup_that_fails_leaves_nothing_running(tmp_path):
    (tmp_path / "file").touch()
    backend = make_backend(f"sqlite:///{tmp_path}/file")
    (tmp_path / "file").write_text("no database, " * 100)

    with pytest.raises(ConfigError):
        await backend.setup(None)
    await backend.cleanup()

    assert len(asyncio.all_tasks()) == 1
