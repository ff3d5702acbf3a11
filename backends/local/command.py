"""What a job is started with: files, environment, command line. Touches nothing."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from backends.database.launcher import JobSpec, Role
from backends.local.accounts import Account
from gateway.domain.errors import InvariantError

HOST: Final = "127.0.0.1"
# Names a job to whoever looks at a process' environment.
MARKER: Final = "DASKFLEET_JOB"

CA_FILE: Final = "ca.crt"
CERTIFICATE_FILE: Final = "dask.crt"
KEY_FILE: Final = "dask.pem"
TOKEN_FILE: Final = "api-token"  # noqa: S105 - the name of a file

# Modules rather than scripts: distributed took `dask-scheduler` away in 2026.6,
# and `dask scheduler` is younger than 2022.10. The worker keeps its nanny, as
# `dask worker` has it: the nanny enforces the memory limit, and restarts and
# uploads through NannyPlugin need one. It gives up, and so ends the job, when
# the worker cannot start, so that a crash at the start stays visible.
_MODULES: Final = {
    Role.SCHEDULER: "distributed.cli.dask_scheduler",
    Role.WORKER: "distributed.cli.dask_worker",
}
# Dask reads a whole configuration from it.
_INHERITED_CONFIG: Final = "DASK_INTERNAL_INHERIT_CONFIG"


def build_files(spec: JobSpec) -> Mapping[str, str]:
    """Return the credential files of a job, by name: what its role needs, no more.

    The token is the scheduler's alone; no job ever holds the CA's key.
    """
    credentials = spec.credentials
    is_scheduler = spec.ref.role is Role.SCHEDULER
    leaf = credentials.scheduler if is_scheduler else credentials.worker
    files = {
        CA_FILE: credentials.ca_certificate,
        CERTIFICATE_FILE: leaf.certificate,
        KEY_FILE: leaf.key,
    }
    if is_scheduler:
        files[TOKEN_FILE] = credentials.token
    return files


def build_environment(
    spec: JobSpec,
    *,
    files: Path,
    job_id: str,
    inherited: Mapping[str, str],
    account: Account | None,
) -> dict[str, str]:
    """Return the whole environment of a job.

    Parameters
    ----------
    spec
        What to start.
    files
        Directory of `build_files`, with ``scratch`` in it.
    job_id
        Value of `MARKER`.
    inherited
        What the gateway's own environment passes on.
    account
        Whom the job runs as, ``None``: the gateway's user.

    Notes
    -----
    The cluster's configuration may set anything but what secures it: see
    `find_ignored`.
    """
    wiring = _build_wiring(spec, files)
    ignored = set(find_ignored(spec, files))
    chosen = {k: v for k, v in spec.config.environment.items() if k not in ignored}
    person = {"USER": spec.owner}
    if account is not None:
        person = {"USER": account.name, "LOGNAME": account.name, "HOME": account.home}
    scratch = {"DASK_TEMPORARY_DIRECTORY": str(files / "scratch")}
    return {**inherited, **scratch, **person, **chosen, **wiring, MARKER: job_id}


def find_ignored(spec: JobSpec, files: Path) -> tuple[str, ...]:
    """Return the names that the configuration may not set and yet sets.

    Dask folds case and takes ``-`` for ``_`` in the names of its variables, so
    one setting has many spellings.
    """
    ours = {_fold(name) for name in (*_build_wiring(spec, files), MARKER)}
    ours |= {_fold(_INHERITED_CONFIG), _fold("DASK_GATEWAY_API_TOKEN")}
    names = spec.config.environment
    return tuple(sorted(name for name in names if _fold(name) in ours))


def build_command(spec: JobSpec, *, plugin: Path | None) -> tuple[str, ...]:
    """Return the command line of a job.

    Parameters
    ----------
    spec
        What to start. A command that it sets is used exactly as given, with
        our arguments behind it.
    plugin
        File of the scheduler's plugin; needed for a scheduler.
    """
    config = spec.config
    if spec.ref.role is Role.SCHEDULER:
        command, arguments = config.scheduler_cmd, _scheduler_arguments(plugin)
    else:
        command, arguments = config.worker_cmd, _worker_arguments(spec)
    if command is None:
        python = config.extra.get("python") or sys.executable
        command = (str(python), "-m", _MODULES[spec.ref.role])
    return (*command, *arguments)


def _scheduler_arguments(plugin: Path | None) -> Iterable[str]:
    if plugin is None:
        raise InvariantError("a scheduler needs its plugin")
    return (
        *("--protocol", "tls"),
        *("--port", "0"),
        *("--host", HOST),
        *("--dashboard-address", f"{HOST}:0"),
        *("--preload", str(plugin)),
    )


def _worker_arguments(spec: JobSpec) -> Iterable[str]:
    if spec.scheduler_address is None:
        raise InvariantError("a worker needs its scheduler's address")
    return (
        spec.scheduler_address,
        *("--dashboard-address", f"{HOST}:0"),
        *("--name", spec.ref.name),
        *("--nthreads", str(spec.config.worker_threads)),
        *("--memory-limit", str(spec.config.worker_memory_bytes)),
    )


def _build_wiring(spec: JobSpec, files: Path) -> dict[str, str]:
    """Return what binds the job to its cluster and to nothing else."""
    tls = f"DASK_DISTRIBUTED__COMM__TLS__{spec.ref.role.upper()}__"
    wiring = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(files / CA_FILE),
        f"{tls}CERT": str(files / CERTIFICATE_FILE),
        f"{tls}KEY": str(files / KEY_FILE),
        "DASK_GATEWAY_API_URL": spec.api_url,
        "DASK_GATEWAY_CLUSTER_NAME": spec.ref.cluster,
    }
    if spec.ref.role is Role.SCHEDULER:
        wiring |= {
            "DASK_GATEWAY_API_TOKEN": str(files / TOKEN_FILE),
            "DASKFLEET_ADAPTIVE_PERIOD": str(spec.config.adaptive_period_s),
            "DASKFLEET_DRAIN_TIMEOUT": str(spec.config.drain_timeout_s),
        }
    return wiring


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")
