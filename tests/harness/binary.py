"""Where the programs of the harness are.

They are looked for and never built or fetched here: ``tools/kube.sh`` and
``tools/environment.sh`` do that before the tests start.
"""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
