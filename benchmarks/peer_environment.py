"""The peer in a virtual environment of its own, made once and kept."""

import json
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

PEER_VERSION = "2026.3.0"
_INSTALL_S = 900


def ensure_peer(cache: Path) -> Path:
    """Return the Python of an environment that has the peer.

    Its ``distributed`` is the version that this process has, so that schedulers
    and workers of both sides are the same program.
    """
    distributed = metadata.version("distributed")
    folder = cache / f"peer-{PEER_VERSION}-distributed-{distributed}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists():
        return python
    wanted = [
        f"dask-gateway-server[local]=={PEER_VERSION}",
        f"dask-gateway=={PEER_VERSION}",
        f"distributed=={distributed}",
        "bokeh",
        "psutil",
    ]
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        _call([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
        _call([uv, "pip", "install", "--quiet", "--python", str(python), *wanted])
    else:
        venv.create(folder, with_pip=True)
        _call([str(python), "-m", "pip", "install", "--quiet", *wanted])
    # Byte code beforehand: the first start would pay for it otherwise.
    _call([str(python), "-m", "compileall", "-q", str(folder / "lib")], check=False)
    ready.touch()
    return python


def describe_peer(python: Path) -> dict[str, str]:
    """Return the versions that matter, as the peer's environment has them."""
    script = (
        "import json, importlib.metadata as m; print(json.dumps({n: m.version(n) for n"
        " in ('dask-gateway-server', 'distributed', 'aiohttp', 'SQLAlchemy')}))"
    )
    done = subprocess.run(
        [python, "-c", script], stdout=subprocess.PIPE, check=True, timeout=60
    )
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def _call(command: list[str], *, check: bool = True) -> None:
    subprocess.run(command, check=check, timeout=_INSTALL_S)
