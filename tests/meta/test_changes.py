"""A change that users see leaves a fragment that towncrier can read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

KINDS = "feature|bugfix|doc|removal|misc"
NAME = re.compile(rf"(\d+|\+[\w-]+)\.({KINDS})(\.\d+)?\.md")
FRAGMENTS = sorted((ROOT / "CHANGES").glob("*.md"))


def test_there_is_something_to_tell() -> None:
    assert FRAGMENTS


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_has_a_name_that_is_sorted_and_a_sentence(fragment: Path) -> None:
    text = fragment.read_text().strip()

    assert NAME.fullmatch(fragment.name)
    assert text[0].isupper()
    assert text.endswith(".")


def test_towncrier_builds_the_news() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    for fragment in FRAGMENTS:
        first = fragment.read_text().split("\n")[0].strip()
        assert first[:40] in run.stdout
