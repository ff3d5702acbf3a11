"""Where the programs of the harness are, and what of it can run here.

They are looked for and never built or fetched here: ``tools/kube.sh`` and
``tools/environment.sh`` do that before the tests start.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


# Set by world.sh.
WORLD_MARK = "DASKFLEET_WORLD"


class ProgramMissing(Exception):
    """A program of the harness is not there; the text says how to get it."""


@cache
def find_kube() -> Path:
    """Return the binary that holds etcd and all parts of Kubernetes.

    Raises
    ------
    ProgramMissing
        Until ``tools/kube.sh`` has built it.
    """
    asked = subprocess.run(
        [ROOT / "tools/kube.sh", "--path"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise ProgramMissing("no kube binary; to get it: tools/kube.sh")
    return Path(asked.stdout.strip())


def find_program(name: str, package: str) -> Path:
    """Return a program of the virtual environment, or of the machine.

    Parameters
    ----------
    package
        What to install where it is missing.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ProgramMissing(f"no {name}; to get it: install {package}")
    return Path(found)


def is_world() -> bool:
    """Return whether this process is in a world that it may change at will."""
    return WORLD_MARK in os.environ


def why_no_control_plane() -> str:
    """Return what an API server lacks here, or nothing."""
    try:
        find_kube()
    except ProgramMissing as error:
        return str(error)
    return ""


def why_no_node() -> str:
    """Return what a node lacks here, or nothing."""
    if is_world():
        return why_no_control_plane()
    return "a node needs root and a world; to get it: make test-kubernetes"
