"""What the documents point at is there: files, headings, commands."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT, tracked_files

DOCUMENTS = [path for path in tracked_files() if path.suffix == ".md"]
DOCUMENTS = [path for path in DOCUMENTS if path.parts[0] in {"docs", "README.md"}]

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MAKE = re.compile(
    r"(?:^\$ |`|&& )make ((?:[a-z][a-z-]*|[A-Z]+=\S+)(?: [A-Z]+=\S+)*)", re.MULTILINE
)
COMMAND = re.compile(r"(?:^\$ |`)daskfleet ([a-z-]+)", re.MULTILINE)


def text_of(path: Path) -> str:
    return (ROOT / path).read_text()


def anchors_of(path: Path) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(path)), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def broken_links(path: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", text_of(path))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name) if name else path
        full = (ROOT / linked).resolve()
        if not full.exists():
            yield f"{path}: {target}: no such file"
        elif anchor and anchor not in anchors_of(full.relative_to(ROOT)):
            yield f"{path}: {target}: no such heading"


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    assert not list(broken_links(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(
        re.findall(r"^([a-z][a-z-]*):", text_of(Path("Makefile")), re.MULTILINE)
    )

    named = {words.split()[0] for words in MAKE.findall(text_of(path))}

    assert named <= targets


def test_the_readme_names_its_two_commands() -> None:
    assert {"demo", "test"} <= set(MAKE.findall(text_of(Path("README.md"))))


def test_subcommands_that_are_named_exist() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "gateway", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    named = {
        command for path in DOCUMENTS for command in COMMAND.findall(text_of(path))
    }

    assert {command for command in named if command not in shown} == set()


def test_every_document_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    open_paths = [Path("README.md")]
    while open_paths:
        path = open_paths.pop()
        if path in seen:
            continue
        seen.add(path)
        for target in LINK.findall(FENCE.sub("", text_of(path))):
            linked = (ROOT / path.parent / target.partition("#")[0]).resolve()
            if linked.suffix == ".md" and linked.is_file():
                open_paths.append(linked.relative_to(ROOT))

    assert set(DOCUMENTS) - seen == set()
