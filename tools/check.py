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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

Say = Callable[[str], object]
ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

# Real processes on a shared machine: a few tests may lose a race that is nobody's
# fault. They get one more try and are named; more than a few is no accident.
MOST_TRIED_AGAIN = 5
KUBERNETES = "tests/integration/kubernetes"
_NEED_KUBERNETES = {"tests on a node", "tests on Kubernetes", "rights", "coverage"}


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
    cache
        Where its pytest keeps what has failed.
    is_beside
        Runs at the same time as the gate before it; both wait more than they work.
        Its output comes when both have ended.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    remedy: str
    is_shown: bool = False
    again: tuple[str, ...] = ()
    cache: str = ".pytest_cache"
    is_beside: bool = False


def _make_kubernetes_gate(name: str, marks: str, cache: str) -> Gate:
    return Gate(
        name,
        "tests",
        (
            str(ROOT / "tests/harness/world.sh"),
            *(str(BIN / "coverage"), "run", "-m", "pytest", "--durations=10"),
            *("-m", marks, "-o", f"cache_dir={cache}", KUBERNETES),
        ),
        "run one alone, as root: make test-kubernetes ARGS='-x PATH'",
        is_shown=True,
        again=AGAIN,
        cache=cache,
    )


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
    _make_kubernetes_gate("tests on a node", "node", ".pytest_cache/node"),
    replace(
        _make_kubernetes_gate(
            "tests on Kubernetes", "not node", ".pytest_cache/kubernetes"
        ),
        is_beside=True,
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
    number = len(chosen)
    for data in (*ROOT.glob(".coverage*"), *ROOT.glob(".check/rights/*.json")):
        data.unlink(missing_ok=True)
    closings, failed = [], []
    while chosen:
        first = chosen.pop(0)
        beside = [chosen.pop(0)] if chosen and chosen[0].is_beside else []
        for gate, (passed, closing) in _try_together(first, beside):
            closings += [closing] if closing else []
            if not passed:
                failed.append(gate)
    for gate in failed:
        _say(f"FAILED {gate.name}. What to do: {gate.remedy}")
    if not failed:
        _say(f"All {number} checks passed.")
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


def _try_together(
    first: Gate, beside: Sequence[Gate]
) -> Iterator[tuple[Gate, tuple[bool, str]]]:
    """Run gates at the same time; the first one's output is shown as it comes."""
    kept: dict[Gate, list[str]] = {gate: [] for gate in beside}
    with ThreadPoolExecutor(max_workers=len(kept) + 1) as pool:
        running = {
            gate: pool.submit(_try, gate, lines.append) for gate, lines in kept.items()
        }
        yield first, _try(first, _say)
        for gate, outcome in running.items():
            result = outcome.result()
            _say(*kept[gate])
            yield gate, result


def _try(gate: Gate, say: Say) -> tuple[bool, str]:
    last_failed = ROOT / gate.cache / "v/cache/lastfailed"
    last_failed.unlink(missing_ok=True)
    passed, closing = _run(gate, say)
    names = [] if passed or not gate.again else _find_last_failed(last_failed)
    if names:
        again = replace(gate, command=(*gate.command, *gate.again))
        passed, closing = _run(again, say)
    if passed:
        for name in names:
            say(f"FLAKY {name} failed, then passed. What to do: mend it")
    return passed, closing


def _run(gate: Gate, say: Say) -> tuple[bool, str]:
    started = time.monotonic()
    if gate.is_shown:
        say(f"{gate.name}:")
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
            say(line)
    passed = process.wait() == 0
    if not passed and not gate.is_shown:
        for line in lines:
            say(line)
    outcome = "ok" if passed else f"failed ({process.returncode})"
    say(f"{gate.name:<20}{outcome:<12}{time.monotonic() - started:6.1f} s")
    # pytest's closing line stands between signs; a world may have a word after it.
    bordered = [line for line in lines if line.startswith("=")]
    return passed, bordered[-1] if gate.is_shown and bordered else ""


def _find_last_failed(file: Path) -> list[str]:
    """Return the tests that have just failed, if they are few enough to try again."""
    if not file.exists():
        return []
    names = sorted(json.loads(file.read_text()))
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
