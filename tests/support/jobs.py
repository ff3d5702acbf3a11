"""Jobs for tests of launchers, and a look at what is left of them."""

import asyncio
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from backends.database.launcher import (
    JobRef,
    JobSpec,
    JobState,
    JobView,
    Launcher,
    Role,
)
from backends.local.launcher import LocalSettings, ProcessLauncher
from backends.local.stopping import Patience
from gateway.credentials import make_credentials
from gateway.domain.config import ResolvedConfig
from gateway.domain.credentials import Credentials
from tests.support.eventually import eventually

# Short, so that a test of the last resort does not take half a minute; long
# enough for a loaded machine to let a process end by itself.
PATIENCE = Patience(sigint_s=1.5, sigterm_s=1, sigkill_s=2)

# An interpreter that every account of the machine can run, where there is one.
SYSTEM_PYTHON = (
    shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
)

SCHEDULER = JobRef("c1", Role.SCHEDULER, "scheduler")
WORKER = JobRef("c1", Role.WORKER, "c1-worker-0")


@cache
def credentials_of(cluster: str) -> Credentials:
    """Return credentials of ``cluster``, the same in every test."""
    return make_credentials(cluster, datetime.now(UTC))  # noqa: TID251 - OpenSSL reads the real clock


def a_job(
    *command: str,
    ref: JobRef = SCHEDULER,
    owner: str = "alice",
    environment: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
    scheduler_address: str | None = "tls://127.0.0.1:1",
) -> JobSpec:
    """Return a job that runs ``command``, or the default one."""
    return JobSpec(
        ref=ref,
        owner=owner,
        config=ResolvedConfig(
            scheduler_cmd=command or None,
            worker_cmd=command or None,
            environment=environment or {},
            extra=extra or {},
        ),
        credentials=credentials_of(ref.cluster),
        api_url="http://127.0.0.1:1/api",
        scheduler_address=scheduler_address,
    )


def python(code: str) -> tuple[str, ...]:
    """Return a command that runs ``code`` and starts fast."""
    return (sys.executable, "-I", "-S", "-c", code)


def make_settings(directory: Path, **changes: Any) -> LocalSettings:
    """Return settings for clusters below ``directory``."""
    plugin = directory / "plugin.py"
    plugin.touch()
    settings: dict[str, Any] = {
        "directory": directory / "clusters",
        "patience": PATIENCE,
        "plugin": plugin,
    }
    return LocalSettings(**{**settings, **changes})


def make_launcher(directory: Path, **changes: Any) -> ProcessLauncher:
    """Return a launcher for clusters below ``directory``."""
    return ProcessLauncher(make_settings(directory, **changes))


async def view(launcher: Launcher, ref: JobRef = SCHEDULER) -> JobView:
    """Return a job as it is now."""
    return (await launcher.observe([ref]))[ref]


async def wait_until_ended(launcher: Launcher, ref: JobRef = SCHEDULER) -> JobView:
    """Return the last view of a job that ends by itself."""

    async def has_ended() -> JobView | None:
        seen = await view(launcher, ref)
        return seen if seen.state is JobState.ENDED else None

    return await eventually(has_ended, within=60)


async def end(launcher: Launcher, *refs: JobRef) -> None:
    """Stop jobs and wait until nothing of them is left."""
    for ref in refs:
        await eventually(lambda ref=ref: launcher.stop(ref), within=60)


async def run_script(script: str, *arguments: object, want_status: int = 0) -> str:
    """Run ``script`` in another process of ours; return what it printed."""
    finished = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert finished.returncode == want_status, finished.stderr
    return finished.stdout


def find_marked(directory: Path) -> list[int]:
    """Return the pids of living processes that jobs below ``directory`` started.

    Looks at everybody's environment and command line: knows nothing of what
    the launcher wrote down.
    """
    text = str(directory).encode()
    found = []
    for entry in _processes():
        try:
            traces = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if text in traces and state != "Z":
            found.append(int(entry.name))
    return found


def _processes() -> Iterable[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
