"""Check the bounds on coverage: pure code all of it, everything 90 %.

A bound of 100 % on everything would breed ``pragma: no cover``; pure code has
no excuse.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OVERALL = 90.0
_SHOWN = 12

# Lines and branches, all of them.
WHOLE = (
    "gateway/domain/*.py",
    "gateway/http/schemas*.py",
    "backends/database/plan*.py",
    "backends/database/records.py",
    "backends/database/actions.py",
    "backends/kubernetes/names.py",
    "backends/kubernetes/backend/kept.py",
    "backends/kubernetes/backend/manifests.py",
    "backends/kubernetes/backend/refusals.py",
    "backends/kubernetes/backend/reported.py",
    "backends/kubernetes/backend/requests.py",
    "backends/kubernetes/backend/route_table.py",
    "backends/kubernetes/backend/sharing.py",
    "backends/kubernetes/backend/targets.py",
    "backends/kubernetes/crd/*.py",
    "backends/kubernetes/customise/*.py",
    "backends/kubernetes/desired/*.py",
    "backends/kubernetes/observed/*.py",
    "backends/kubernetes/planning/*.py",
    "backends/routing/table.py",
)


def main() -> int:
    """Print what misses its bound and return the exit status."""
    coverage = (sys.executable, "-m", "coverage")
    subprocess.run((*coverage, "combine", "--quiet"), cwd=ROOT, check=False)  # noqa: S603 - our own arguments
    run = subprocess.run(  # noqa: S603 - our own arguments
        (*coverage, "json", "--quiet", "-o", "-"),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        print(run.stdout, run.stderr)  # noqa: T201 - a command of a person
        return run.returncode
    report = json.loads(run.stdout)
    problems = list(find_problems(report))
    total = report["totals"]["percent_covered"]
    print(*problems, f"total {total:.1f} %, bound {OVERALL:.0f} %", sep="\n")  # noqa: T201 - a command of a person
    return 1 if problems else 0


def find_problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each bound that ``report`` misses.

    Parameters
    ----------
    report
        What ``coverage json`` writes, measured with branches.
    """
    files = report["files"]
    for pattern in WHOLE:
        found = [path for path in files if fnmatch(path, pattern)]
        if not found:
            yield f"{pattern}: nothing was measured; is the path still right?"
        for path in sorted(found):
            yield from _gaps(path, files[path])
    total = report["totals"]["percent_covered"]
    if total < OVERALL:
        yield f"everything: {total:.1f} %, must be {OVERALL:.0f} %"
        yield from _worst(files)


def _gaps(path: str, file: Mapping[str, Any]) -> Iterator[str]:
    lines = [str(line) for line in file["missing_lines"]]
    # An untaken way to a line that never ran says the same twice.
    branches = [
        f"{start}->{end}"
        for start, end in file["missing_branches"]
        if str(end) not in lines
    ]
    if lines:
        yield f"{path}: lines {_shorten(lines)} never run"
    if branches:
        yield f"{path}: branches {_shorten(branches)} never taken"


def _shorten(places: Sequence[str]) -> str:
    more = len(places) - _SHOWN
    return ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _worst(files: Mapping[str, Any]) -> Iterator[str]:
    def missing(path: str) -> int:
        return int(files[path]["summary"]["missing_lines"])

    for path in sorted(files, key=missing, reverse=True)[:10]:
        if missing(path):
            yield f"    {path}: {missing(path)} lines never run"


if __name__ == "__main__":
    sys.exit(main())
