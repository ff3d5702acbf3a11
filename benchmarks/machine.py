"""Facts of the machine and the software that a figure depends on."""

import compileall
import os
import platform
import site
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

_OURS = ("aiohttp", "msgspec", "SQLAlchemy", "aiosqlite", "distributed", "dask-gateway")


def prepare() -> None:
    """Let every process that is measured start from compiled modules.

    Without it ``import distributed`` takes seven seconds instead of one, on
    whichever side happens to be started first.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in site.getsitepackages():
        compileall.compile_dir(folder, quiet=2, workers=0)


def describe_machine(root: Path) -> dict[str, Any]:
    """Return processor, memory, system, versions and how busy it is."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "commit": _commit(root),
        "versions": {name: metadata.version(name) for name in _OURS},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _commit(root: Path) -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
