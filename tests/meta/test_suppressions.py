"""A rule that is switched off says which one, and why."""

import re
import tomllib

import pytest

from tests.support.sources import ROOT, comments, python_files

FOLDERS = ("gateway", "backends", "tools", "tests", "benchmarks")
MARKS = re.compile(
    r"#\s*(noqa|type:\s*ignore|pragma|mypy:|ruff:|fmt:\s*off)", re.IGNORECASE
)
REASONED = (
    re.compile(r"# (ruff: )?noqa: [A-Z]+\d+(, [A-Z]+\d+)* - \w.{3,}"),
    re.compile(r"# type: ignore\[[a-z-]+(, ?[a-z-]+)*\]  # \w.{5,}"),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_suppression_in_code_names_its_rule_and_a_reason(folder: str) -> None:
    bare = [
        f"{path}:{line}: {text}"
        for path in python_files(folder)
        for line, text in comments(path)
        if MARKS.search(text) and not any(form.search(text) for form in REASONED)
    ]

    assert not bare, "\n".join(bare)


def test_each_rule_that_is_off_everywhere_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    ignored = tomllib.loads(text)["tool"]["ruff"]["lint"]["ignore"]

    bare = [
        rule
        for rule in ignored
        if not re.search(rf'^ *"{rule}", +# \w+', text, re.MULTILINE)
    ]

    assert not bare, "\n".join(bare)
