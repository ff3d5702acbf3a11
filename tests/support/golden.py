"""Compare with a file that people read and review.

``pytest --update-golden`` writes the files again; what changed in them is then part
of the review. Without it a difference fails, and so does a file that is missing.
"""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden:
    """Files below ``tests/golden`` that hold what a test expects.

    Parameters
    ----------
    update
        Write them instead.
    """

    def __init__(self, *, update: bool) -> None:
        self._update = update

    def check(self, path: str, text: str) -> None:
        """Fail unless the file at ``path`` holds exactly ``text``."""
        file = GOLDEN / path
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        want = file.read_text(encoding="utf-8") if file.exists() else ""
        assert text == want, f"{path} differs; see pytest --update-golden"

    def check_json(self, path: str, value: object) -> None:
        """Fail unless the file at ``path`` holds ``value``, as people read JSON."""
        self.check(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Files of expected text."""
    return Golden(update=request.config.getoption("--update-golden"))
