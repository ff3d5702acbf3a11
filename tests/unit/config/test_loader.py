"""A configuration file is a program; its failures name file and line."""

from pathlib import Path

import pytest

from gateway.config.loader import load_config
from gateway.domain.errors import ConfigError


def write(folder: Path, text: str, name: str = "config.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_c_get_config_and_the_file_itself_are_there(tmp_path) -> None:
    path = write(
        tmp_path,
        "assert get_config() is c\n"
        "c.A.here = __file__\n"
        "class Thing:\n    pass\n"
        "c.A.thing = Thing()\n",
    )

    loaded = load_config(path)

    assert loaded.config.A.here == str(path)
    assert type(loaded.config.A.thing).__name__ == "Thing"


def test_c_is_the_very_object_that_functions_of_the_file_write_to(tmp_path) -> None:
    path = write(tmp_path, "def later():\n    c.A.x = 2\nc.A.x = 1\nc.A.f = later\n")
    config = load_config(path).config

    config.A.f()

    assert config.A.x == 2


def test_a_file_may_load_others_beside_it(tmp_path) -> None:
    write(tmp_path, "c.A.y = 2\n", "more.py")
    path = write(tmp_path, "c.A.x = 1\nload_subconfig('more.py')\n")

    loaded = load_config(path)

    assert dict(loaded.config.A) == {"x": 1, "y": 2}
    assert loaded.lines["A", "y"] == f"{tmp_path / 'more.py'}:1"


def test_the_line_of_each_setting_is_remembered(tmp_path) -> None:
    path = write(
        tmp_path,
        "c.A.x = 1\n\nif True:\n    c.A.x = 2\nc.A.y.append(3)\nprint_me = c.A.x\n",
    )

    lines = load_config(path).lines

    assert lines == {("A", "x"): f"{path}:4", ("A", "y"): f"{path}:5"}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x = 1\ny = undefined\n", "2: NameError: name 'undefined'"),
        ("x = 1\nraise ValueError('because')\n", "2: ValueError: because"),
        ("x = (\n", "1: "),
        ("import sys\nsys.exit(3)\n", "2: SystemExit: 3"),
        ("class E(BaseException): pass\nraise E('x')\n", "2: E: x"),
        ("class E(Exception):\n  __str__ = 3\nraise E\n", "3: E"),
        ("raise GeneratorExit\n", "1: GeneratorExit"),
        (f"x = {'-' * 300_000}1\n", "1: nested too deeply"),
        ("def f():\n    return 1 / 0\n\nf()\n", "2: ZeroDivisionError"),
        ("import no_such_module\n", "1: No module named 'no_such_module'"),
    ],
)
def test_a_file_that_fails_says_where(tmp_path, text, want) -> None:
    path = write(tmp_path, text)

    with pytest.raises(ConfigError) as error:
        load_config(path)

    (problem,) = error.value.problems
    assert problem.startswith(f"{path}:{want}")


def test_a_file_beside_it_that_fails_is_named(tmp_path) -> None:
    write(tmp_path, "\n\n1 / 0\n", "more.py")
    path = write(tmp_path, "load_subconfig('more.py')\n")

    with pytest.raises(ConfigError) as error:
        load_config(path)

    assert error.value.problems[0].startswith(f"{tmp_path / 'more.py'}:3: ")


def test_an_absent_file_says_what_writes_one(tmp_path) -> None:
    with pytest.raises(ConfigError, match="daskfleet generate-config"):
        load_config(tmp_path / "absent.py")


def test_without_a_name_our_file_is_taken_before_the_peers(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(None).config == {}

    write(tmp_path, "c.A.x = 'peer'\n", "dask_gateway_config.py")
    assert load_config(None).config.A.x == "peer"

    write(tmp_path, "c.A.x = 'ours'\n", "daskfleet_config.py")
    assert load_config(None).config.A.x == "ours"
