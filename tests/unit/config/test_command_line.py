"""``daskfleet check-config`` and ``daskfleet generate-config``."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.__main__ import main
from gateway.auth.passwords import parse_password_file
from gateway.config.dropin import peer_names

BASE = "c.DaskGateway.backend_class = 'gateway.config.backend.Backend'\n"


@pytest.fixture(autouse=True)
def _names():
    with peer_names():
        yield


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "config.py"
        path.write_text(BASE + text)
        return str(path)

    return write


def test_a_file_that_can_be_used_exits_with_0(file, capsys) -> None:
    assert main(["check-config", "-f", file("")]) == 0
    assert capsys.readouterr().out == "The configuration can be used.\n"


def test_a_file_that_cannot_exits_with_78_and_all_problems(file, capsys) -> None:
    path = file("c.Proxy.address = 'x'\nc.ClusterConfig.worker_cores = 'y'\n")

    assert main(["check-config", "--config", path]) == 78
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"error: {path}:") for line in lines)


def test_unknown_names_fail_only_strictly(file, capsys) -> None:
    path = file("c.Proxy.adress = 'x'\n")

    assert main(["check-config", "-f", path]) == 0
    assert main(["check-config", "-f", path, "--strict"]) == 78
    assert "did you mean 'address'?" in capsys.readouterr().out


def test_an_absent_file_exits_with_78(tmp_path, capsys) -> None:
    assert main(["check-config", "-f", str(tmp_path / "absent.py")]) == 78
    assert "no such file" in capsys.readouterr().out


def test_a_gateway_does_not_start_with_errors(file, capsys) -> None:
    path = file("c.Proxy.address = 'x'\n")

    assert main(["gateway", "-f", path]) == 78
    assert f"error: {path}:2: Proxy.address" in capsys.readouterr().err


def test_a_site_may_want_unknown_names_to_be_errors(file, capsys) -> None:
    path = file("c.DaskGateway.strict_config = True\nc.Proxy.adress = 'x'\n")

    assert main(["gateway", "-f", path]) == 78
    assert "did you mean 'address'?" in capsys.readouterr().err


def test_a_wrong_level_on_the_command_line_is_refused(file, capsys) -> None:
    assert main(["gateway", "-f", file(""), "--log-level", "LOUD"]) == 78
    assert "DaskGateway.log_level" in capsys.readouterr().err


def test_a_file_is_generated_once_unless_forced(tmp_path, capsys) -> None:
    path = tmp_path / "new.py"

    assert main(["generate-config", "--output", str(path)]) == 0
    assert "# c.Proxy.address = ':8000'" in path.read_text()
    path.write_text("mine")
    assert main(["generate-config", "--output", str(path)]) == 78
    assert path.read_text() == "mine"
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["generate-config", "--output", str(path), "--force"]) == 0
    assert main(["check-config", "-f", str(path)]) == 0


def test_a_file_is_not_generated_into_nowhere(tmp_path, capsys) -> None:
    path = tmp_path / "absent" / "new.py"

    assert main(["generate-config", "--output", str(path)]) == 78
    assert "make it first" in capsys.readouterr().err


def test_the_version_is_told(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == __version__


def test_checking_leaves_the_machine_as_it_was(tmp_path) -> None:
    """No directory, no key, no database is made by a look at a file."""
    path = tmp_path / "config.py"
    path.write_text(f"c.DaskGateway.data_directory = {str(tmp_path / 'data')!r}\n")

    found = subprocess.run(
        [sys.executable, "-m", "gateway", "check-config", "-f", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )

    assert (found.returncode, found.stderr) == (0, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.py"]


def test_a_hashed_password_is_a_line_of_a_password_file(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))

    assert main(["hash-password", "alice"]) == 0

    line = capsys.readouterr().out
    assert "s3cret" not in line
    assert list(parse_password_file(line)) == ["alice"]


@pytest.mark.parametrize(
    ("user", "typed", "want"),
    [
        pytest.param("alice", "\n", "password is empty", id="no-password"),
        pytest.param("#x", "y\n", "cannot be a user's name", id="comment"),
        pytest.param("a:b", "y\n", "no argon2 hash", id="colon"),
    ],
)
def test_what_cannot_be_a_line_is_refused(capsys, monkeypatch, user, typed, want):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))

    assert main(["hash-password", user]) == 78

    assert want in capsys.readouterr().err
