"""The repository's own files, for tests about how the code looks."""

import ast
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "backends")

# Python files that are no modules: Alembic runs them, and only Alembic can.
RUN_BY_ALEMBIC = Path("backends/database/migrations")


def tracked_files() -> list[Path]:
    """Return all files that belong to the project, relative to its root."""
    run = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = sorted({Path(name) for name in run.stdout.split("\0") if name})
    return [path for path in paths if (ROOT / path).is_file()]


def python_files(*folders: str) -> list[Path]:
    """Return Python files below ``folders``, relative to the root."""
    found = (
        path.relative_to(ROOT)
        for folder in folders or PACKAGES
        for path in (ROOT / folder).rglob("*.py")
    )
    return sorted(path for path in found if "__pycache__" not in path.parts)


def module_names() -> list[str]:
    """Return the dotted names of all modules of our packages."""
    return [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in python_files()
        if not path.is_relative_to(RUN_BY_ALEMBIC)
    ]


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file given relative to the root."""
    return ast.parse((ROOT / path).read_text(), filename=str(path))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each comment of a Python file."""
    with (ROOT / path).open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
