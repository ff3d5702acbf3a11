"""Names that say nothing are not used; the glossary has better ones."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import parse, python_files

MODULES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
PREFIXES = ("handle_", "process_", "do_")
WORDS = {"data", "info", "obj"}

# Names that others chose, and who.
EXCEPTIONS = {
    "gateway/config/backend.py: process_cluster_options": "the peer's Backend",
    "gateway/http/listener.py: handle_error": "aiohttp's RequestHandler",
}


def test_no_name_is_one_that_says_nothing() -> None:
    found = {
        f"{path}: {name}"
        for path in python_files("gateway", "backends")
        for name in banned_names(path)
    }

    assert found == set(EXCEPTIONS)


def banned_names(path: Path) -> Iterator[str]:
    yield from (part for part in path.with_suffix("").parts if part in MODULES)
    tree = parse(path)
    given = {
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and overrides(node)
        for argument in ast.walk(node.args)
    }
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.lstrip("_").startswith(PREFIXES):
                    yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                if name.lstrip("_") in WORDS and node not in given:
                    yield name


def overrides(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the names of parameters were chosen by a base class."""
    return any(
        isinstance(m, ast.Name) and m.id == "override" for m in node.decorator_list
    )
