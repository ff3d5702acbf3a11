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

_ENCRYPTION: Final = "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"
_CA: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE"
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__{}__{}"
_API_URL: Final = "DASK_GATEWAY_API_URL"
_API_TOKEN: Final = "DASK_GATEWAY_API_TOKEN"  # noqa: S105 - the name of a variable
_API_CA: Final = "DASK_GATEWAY_API_CA_FILE"
_CLUSTER: Final = "DASK_GATEWAY_CLUSTER_NAME"
# Dask reads a whole configuration from it.
_INHERITED_CONFIG: Final = "DASK_INTERNAL_INHERIT_CONFIG"


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


_OURS: Final = frozenset(
    _fold(name)
    for name in (
        MARKER,
        _ENCRYPTION,
        _CA,
        *(_TLS.format(role.upper(), kind) for role in Role for kind in ("CERT", "KEY")),
        _API_URL,
        _API_TOKEN,
        _API_CA,
        _CLUSTER,
        _INHERITED_CONFIG,
    )
)


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
    directory: Path,
    api_ca_file: Path | None,
    job_id: str,
    inherited: Mapping[str, str],
    account: Account | None,
) -> dict[str, str]:
    """Return the whole environment of a job.

    Parameters
    ----------
    spec
        What to start.
    directory
        Where its files are, with ``scratch`` beside them.
    api_ca_file
        Certificates that a scheduler trusts for the API, if not the machine's;
        a file that outlives the job and may be replaced under it.
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
    wiring = _build_wiring(spec, directory, api_ca_file)
    ignored = set(find_ignored(spec))
    chosen = {k: v for k, v in spec.config.environment.items() if k not in ignored}
    person = {"USER": spec.owner}
    if account is not None:
        person = {"USER": account.name, "LOGNAME": account.name, "HOME": account.home}
    scratch = {"DASK_TEMPORARY_DIRECTORY": str(directory / "scratch")}
    return {**inherited, **scratch, **person, **chosen, **wiring, MARKER: job_id}


def find_ignored(spec: JobSpec) -> tuple[str, ...]:
    """Return the names that the configuration may not set and yet sets.

    Dask folds case and takes ``-`` for ``_`` in the names of its variables, so
    one setting has many spellings.
    """
    names = spec.config.environment
    return tuple(sorted(name for name in names if _fold(name) in _OURS))


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


def _build_wiring(
    spec: JobSpec, directory: Path, api_ca_file: Path | None
) -> dict[str, str]:
    """Return what binds the job to its cluster and to nothing else."""
    role = spec.ref.role
    wiring = {
        _ENCRYPTION: "True",
        _CA: str(directory / CA_FILE),
        _TLS.format(role.upper(), "CERT"): str(directory / CERTIFICATE_FILE),
        _TLS.format(role.upper(), "KEY"): str(directory / KEY_FILE),
        _API_URL: spec.api_url,
        _CLUSTER: spec.ref.cluster,
    }
    if role is Role.SCHEDULER:
        wiring |= {
            _API_TOKEN: str(directory / TOKEN_FILE),
            "DASKFLEET_ADAPTIVE_PERIOD": str(spec.config.adaptive_period_s),
            "DASKFLEET_DRAIN_TIMEOUT": str(spec.config.drain_timeout_s),
        }
        if api_ca_file is not None:
            wiring[_API_CA] = str(api_ca_file)
    return wiring
