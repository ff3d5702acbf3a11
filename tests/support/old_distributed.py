"""The oldest distributed that we promise to work with, in an environment of its own.

Made once per checkout, from PyPI, beside this interpreter; later runs find it.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = "2022.4.0"

# distributed 2022.4.0 knows no upper bounds; these were seen to work with it on
# Python 3.11, where only tornado and msgpack speak with another version's process.
_PINS = (
    f"distributed=={OLDEST}",
    f"dask=={OLDEST}",
    "click==8.5.1",
    "cloudpickle==3.1.3",
    "fsspec==2026.9.0",
    "jinja2==3.1.6",
    "locket==1.0.0",
    "markupsafe==3.0.4",
    "msgpack==1.2.4",
    "packaging==26.4",
    "partd==1.4.2",
    "psutil==7.2.2",
    "pyyaml==6.0.4",
    "sortedcontainers==2.4.0",
    "tblib==3.2.2",
    "toolz==1.2.0",
    "tornado==6.6.1",
    "urllib3==2.8.0",
    "zict==3.0.0",
)

_CACHE = Path(__file__).parents[2] / ".cache"


def find_old_python() -> Path:
    """Return the interpreter of an environment with the oldest distributed.

    Notes
    -----
    Makes the environment if it is not there, or has other pins. A file lock lets
    several test runs ask at once.

    Raises
    ------
    subprocess.CalledProcessError
        If PyPI gives no such packages; its output is in ``stderr``.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = _CACHE / f"distributed-{OLDEST}-python{version}"
    python, done = folder / "bin" / "python", folder / "pins"
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "distributed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = "\n".join((sys.executable, *_PINS))
        if not (done.exists() and done.read_text() == wanted and python.exists()):
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, python)
            done.write_text(wanted)
    return python


def _make(folder: Path, python: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=Path(sys.executable).parent)
    if uv:
        _run(uv, "venv", "--python", sys.executable, str(folder))
        _run(uv, "pip", "install", "--python", str(python), *_PINS)
    else:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", *_PINS)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
