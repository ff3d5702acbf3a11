"""Run everything that decides whether a change is good, and say what failed.

``make test`` runs it all: the quick gates first, each in a line, then the tests.
A gate that fails does not keep the next ones from running, so that one run shows
everything. The last line is pytest's own, or says what this machine had to leave
out: tests on Kubernetes run in a world that only root can make.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

# Real processes on a shared machine: a few tests may lose a race that is nobody's
# fault. They get one more try and are named; more than a few is no accident.
MOST_TRIED_AGAIN = 5
KUBERNETES = "tests/integration/kubernetes"
_NEED_KUBERNETES = {"tests on Kubernetes", "rights", "coverage"}
_LAST_FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"


@dataclass(frozen=True, slots=True)
class Gate:
    """One check.

    Parameters
    ----------
    name
        What a person calls it.
    kind
        Group that ``--only`` selects: lint, types or tests.
    command
        Program of the virtual environment, and its arguments.
    remedy
        What to do when it fails.
    is_shown
        Print the output as it comes instead of only when the gate fails.
    again
        Arguments that run only what has failed; empty if there is no such thing.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    remedy: str
    is_shown: bool = False
    again: tuple[str, ...] = ()


AGAIN = ("--last-failed", "--last-failed-no-failures", "none")
GATES = (
    Gate("ruff check", "lint", ("ruff", "check", "--quiet", "."), "make format"),
    Gate("ruff format", "lint", ("ruff", "format", "--check", "."), "make format"),
    Gate(
        "import contracts",
        "lint",
        ("lint-imports", "--no-logo"),
        "docs/architecture.md tells which layer may import which",
    ),
    Gate("spelling", "lint", ("codespell",), "mend the word"),
    Gate(
        "dependencies",
        "lint",
        ("deptry", "."),
        "add the package to the extra of pyproject.toml that uses it",
    ),
    Gate(
        "pyproject.toml",
        "lint",
        ("validate-pyproject", "pyproject.toml"),
        "mend the field that is named",
    ),
    Gate("types", "types", ("mypy",), "mend the annotation, never the checker"),
    Gate(
        "tests",
        "tests",
        ("coverage", "run", "-m", "pytest", "--durations=10"),
        "run one alone: .venv/bin/python -m pytest -x PATH",
        is_shown=True,
        again=AGAIN,
    ),
    Gate(
        "tests on Kubernetes",
        "tests",
        (
            str(ROOT / "tests/harness/world.sh"),
            *(str(BIN / "coverage"), "run", "-m", "pytest", "--durations=10"),
            KUBERNETES,
        ),
        "run one alone, as root: make test-kubernetes ARGS='-x PATH'",
        is_shown=True,
        again=AGAIN,
    ),
    Gate(
        "rights",
        "tests",
        ("python", "-m", "tests.support.rights"),
        "take the right out of chart/files/rbac, or test what needs it",
    ),
    Gate(
        "coverage",
        "tests",
        ("python", "tools/coverage_bounds.py"),
        "test the lines that are named",
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Run the gates that were asked for and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted({gate.kind for gate in GATES}))
    only = parser.parse_args(arguments).only
    chosen = [gate for gate in GATES if only in {None, gate.kind}]
    why_left_out = "" if only in {"lint", "types"} else _find_why_no_kubernetes()
    chosen = list(_fit_tests(chosen, has_kubernetes=not why_left_out))
    for data in (*ROOT.glob(".coverage*"), *ROOT.glob(".check/rights/*.json")):
        data.unlink(missing_ok=True)
    closings, failed = [], []
    for gate in chosen:
        passed, closing = _try(gate)
        closings += [closing] if closing else []
        if not passed:
            failed.append(gate)
    for gate in failed:
        _say(f"FAILED {gate.name}. What to do: {gate.remedy}")
    if not failed:
        _say(f"All {len(chosen)} checks passed.")
    _say(*closings)
    if why_left_out:
        _say(f"Left out: tests on Kubernetes, rights and coverage: {why_left_out}")
    return 1 if failed else 0


def _find_why_no_kubernetes() -> str:
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        return ""  # what is missing must fail
    asked = subprocess.run(
        (sys.executable, "-m", "tests.harness.possible"),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return asked.stdout.strip()


def _fit_tests(gates: Sequence[Gate], *, has_kubernetes: bool) -> Iterator[Gate]:
    """Yield the gates that can run; no test runs both in a world and outside."""
    for gate in gates:
        if gate.name == "tests" and has_kubernetes:
            yield replace(gate, command=(*gate.command, f"--ignore={KUBERNETES}"))
        elif has_kubernetes or gate.name not in _NEED_KUBERNETES:
            yield gate


def _try(gate: Gate) -> tuple[bool, str]:
    _LAST_FAILED.unlink(missing_ok=True)
    passed, closing = _run(gate)
    names = [] if passed or not gate.again else _find_last_failed()
    if names:
        again = replace(gate, command=(*gate.command, *gate.again))
        passed, closing = _run(again)
    if passed:
        for name in names:
            _say(f"FLAKY {name} failed, then passed. What to do: mend it")
    return passed, closing


def _run(gate: Gate) -> tuple[bool, str]:
    started = time.monotonic()
    if gate.is_shown:
        _say(f"{gate.name}:")
    process = subprocess.Popen(  # noqa: S603 - commands of this file
        (str(BIN / gate.command[0]), *gate.command[1:]),
        cwd=ROOT,
        env=os.environ | {"COLUMNS": os.environ.get("COLUMNS", "100")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = []
    for line in _lines_of(process):
        lines.append(line)
        if gate.is_shown:
            _say(line)
    passed = process.wait() == 0
    if not passed and not gate.is_shown:
        _say(*lines)
    outcome = "ok" if passed else f"failed ({process.returncode})"
    _say(f"{gate.name:<20}{outcome:<12}{time.monotonic() - started:6.1f} s")
    # pytest's closing line stands between signs; a world may have a word after it.
    bordered = [line for line in lines if line.startswith("=")]
    return passed, bordered[-1] if gate.is_shown and bordered else ""


def _find_last_failed() -> list[str]:
    """Return the tests that have just failed, if they are few enough to try again."""
    if not _LAST_FAILED.exists():
        return []
    names = sorted(json.loads(_LAST_FAILED.read_text()))
    return names if len(names) <= MOST_TRIED_AGAIN else []


def _lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    if process.stdout is None:
        return
    for line in process.stdout:
        yield line.rstrip("\n")


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201 - a command of a person


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
