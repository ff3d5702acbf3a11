"""Nothing in the repository depends on the machine it was written on."""

import re
from pathlib import Path

from tests.support.sources import ROOT, tracked_files

# Homes, checkouts and environments of people and of their machines. Made-up people
# of tests and documents have homes, too, and containers have a super-user's.
MACHINE_PATH = re.compile(
    r"/(root/\.\w|work/|home/(?!(alice|bob|dask|jovyan|[a-z])\b)\w+|Users/\w|tmp/venv\b)"
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
            if MACHINE_PATH.search(line)
        ]

    assert not found, "\n".join(found)
