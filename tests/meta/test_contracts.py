"""Each import contract is kept, and has been seen to fail on a planted violation."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT

# By the contract's name: the module to plant in, and what.
PLANTED = {
    "Adapters import the core, never the reverse": (
        "gateway/domain/names.py",
        "import backends.database",
    ),
    "Kubernetes backend: I/O may import pure code, never the reverse": (
        "backends/kubernetes/observed/overlay.py",
        "import backends.kubernetes.planning.plan",
    ),
    "Pure code does no I/O and reads no clock": (
        "gateway/domain/lifetime.py",
        "import time",
    ),
    "Backends do not know each other": (
        "backends/local/__init__.py",
        "import backends.jobqueue",
    ),
    "Kubernetes takes the proxy's table and proof, no files, processes or database": (
        "backends/kubernetes/proxy_config.py",
        "import backends.database.store",
    ),
    "The API server of Kubernetes is asked in one place": (
        "backends/kubernetes/controller/writes.py",
        "import kubernetes_asyncio",
    ),
    "Database and routing know no launcher": (
        "backends/routing/table.py",
        "import backends.local",
    ),
    "The scheduler plugin and the process shim stand alone": (
        "gateway/scheduler_plugin.py",
        "import gateway.domain.sync",
    ),
}


def contracts() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [c["name"] for c in settings["tool"]["importlinter"]["contracts"]]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("gateway", "backends"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def plant(checkout: Path) -> Iterator[object]:
    changed: dict[Path, str] = {}

    def add(path: str, line: str) -> None:
        file = checkout / path
        changed[file] = file.read_text()
        # At the end: a `from __future__` keeps its place.
        file.write_text(f"{changed[file]}\n{line}\n")

    yield add
    for file, text in changed.items():
        file.write_text(text)


def check(checkout: Path) -> str:
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def test_every_contract_is_planted_against() -> None:
    assert set(PLANTED) == set(contracts())


def test_every_contract_is_kept(checkout: Path) -> None:
    shown = check(checkout)

    assert [name for name in contracts() if f"{name} KEPT" not in shown] == [], shown


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_breaks_the_contract(name, checkout: Path, plant) -> None:
    plant(*PLANTED[name])

    shown = check(checkout)

    assert f"{name} BROKEN" in shown
