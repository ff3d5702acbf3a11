"""Nothing in the repository depends on the machine it was written on."""

import re
from pathlib import Path

from tests.support.sources import ROOT, tracked_files

# Homes, checkouts and environments of people and of their machines.
MACHINE_PATH = re.compile(r"/(root|work/|home/(?!\{)\w+|Users/\w+|tmp/venv)\b")

# Lines that must name such a path, and why.
EXCEPTIONS = (
    "/home/jovyan",  # the home in Jupyter's public images
    "/root:",  # the super-user's home in a password database's line
)


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in tracked_files():
        if ROOT / path == Path(__file__):
            continue
        try:
            lines = (ROOT / path).read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path}:{number}: {line.strip()}"
            for number, line in enumerate(lines, start=1)
            if MACHINE_PATH.search(line) and not any(e in line for e in EXCEPTIONS)
        ]

    assert not found, "\n".join(found)
