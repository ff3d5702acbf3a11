"""Names of ``dask_gateway_server`` that sites' files use, and what ours are.

Only the table and its lookup; `gateway.config.dropin` makes imports use it.
A backend that comes later replaces its `Later` entries by paths of ours.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PEER: Final = "dask_gateway_server"


@dataclass(frozen=True, slots=True)
class Later:
    """A name that we do not have, and what takes its place."""

    successor: str


_JOBQUEUE: Final = Later("comes with the job-queue backends")
_JUPYTERHUB: Final = Later("comes with the JupyterHub authenticator")
_KERBEROS: Final = Later("comes with the Kerberos authenticator")
_OWN_STATE: Final = Later(
    "has no successor: the store keeps clusters; use Backend.list_clusters"
)

_OPTIONS: Final = {
    name: f"gateway.domain.options:{name}"
    for name in (
        "Bool",
        "Field",
        "Float",
        "Integer",
        "Mapping",
        "Options",
        "Select",
        "String",
    )
}
_AUTH: Final[Mapping[str, str | Later]] = {
    "Authenticator": "gateway.auth:Authenticator",
    "SimpleAuthenticator": "gateway.auth:SimpleAuthenticator",
    "JupyterHubAuthenticator": _JUPYTERHUB,
    "KerberosAuthenticator": _KERBEROS,
    "UserCache": Later("has no successor: sessions are signed cookies"),
    "User": "gateway.domain.user:User",
    "unauthorized": "gateway.auth:unauthorized",
    # Files import these two from here, too.
    "base": "gateway.auth",
    "base64": "base64",
}
_BASE: Final[Mapping[str, str | Later]] = {
    "Backend": "gateway.config.backend:Backend",
    "ClusterConfig": "gateway.config.cluster:ClusterConfig",
    "PublicException": "gateway.config.backend:PublicException",
}
_LOCAL: Final[Mapping[str, str | Later]] = {
    "LocalBackend": "backends.local.backend:LocalBackend",
    "LocalClusterConfig": "backends.local.config:LocalClusterConfig",
    "UnsafeLocalBackend": "backends.local.backend:UnsafeLocalBackend",
}
_KUBE: Final[Mapping[str, str | Later]] = {
    "KubeBackend": "backends.kubernetes.backend.backend:KubeBackend",
    "KubeClusterConfig": "backends.kubernetes.cluster_config:KubeClusterConfig",
    "KubeController": "backends.kubernetes.config:KubeController",
}
_JOBS: Final = dict.fromkeys(("JobQueueBackend", "JobQueueClusterConfig"), _JOBQUEUE)
_SLURM: Final = dict.fromkeys(("SlurmBackend", "SlurmClusterConfig"), _JOBQUEUE)
_PBS: Final = dict.fromkeys(("PBSBackend", "PBSClusterConfig"), _JOBQUEUE)

# Module below the peer's package -> name -> ours, or what takes its place. A
# module as a whole may be `Later`.
MODULES: Final[Mapping[str, Mapping[str, str | Later] | Later]] = {
    "": {"__version__": "gateway:__version__"},
    "app": {"DaskGateway": "gateway.config.application:DaskGateway"},
    "auth": _AUTH,
    "auth.base": _AUTH,
    "backends": _BASE,
    "backends.base": _BASE,
    "backends.db_base": {
        "DBBackendBase": "backends.database.config:DBBackendBase",
        "Cluster": _OWN_STATE,
        "Worker": _OWN_STATE,
        "JobStatus": _OWN_STATE,
    },
    "backends.inprocess": Later(
        "has no successor; use backends.local.UnsafeLocalBackend"
    ),
    "backends.jobqueue": {**_JOBS, **_SLURM, **_PBS},
    "backends.jobqueue.base": _JOBS,
    "backends.jobqueue.pbs": {**_JOBS, **_PBS},
    "backends.jobqueue.slurm": {**_JOBS, **_SLURM},
    "backends.kubernetes": _KUBE,
    "backends.kubernetes.backend": _KUBE,
    "backends.kubernetes.controller": _KUBE,
    "backends.local": _LOCAL,
    "backends.yarn": Later("has no successor: dask-gateway dropped YARN"),
    "models": {
        "Cluster": "gateway.domain.cluster:Cluster",
        "ClusterStatus": "gateway.domain.cluster:PublicStatus",
        "User": "gateway.domain.user:User",
    },
    "options": _OPTIONS,
    "proxy": {"Proxy": "gateway.config.proxy:Proxy"},
    "traitlets": {
        name: f"gateway.config.traits:{name}"
        for name in ("Callable", "Command", "MemoryLimit", "Type")
    },
    "utils": {
        "FrozenAttrDict": "gateway.domain.options:OptionValues",
        "format_bytes": "gateway.domain.quantities:format_memory",
    },
}

# Short names of classes, as entry points of other gateways have them.
SHORT_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "simple": ("auth", "SimpleAuthenticator"),
    "basic": ("auth", "SimpleAuthenticator"),
    "jupyterhub": ("auth", "JupyterHubAuthenticator"),
    "kerberos": ("auth", "KerberosAuthenticator"),
    "local": ("backends.local", "LocalBackend"),
    "unsafe-local": ("backends.local", "UnsafeLocalBackend"),
    "kubernetes": ("backends.kubernetes", "KubeBackend"),
    "pbs": ("backends.jobqueue.pbs", "PBSBackend"),
    "slurm": ("backends.jobqueue.slurm", "SlurmBackend"),
}


class MissingPeerName(ImportError):
    """The peer has a name, or had, that we do not have."""


def is_peer_module(path: str) -> bool:
    """Return whether ``path`` is the peer's package, or would be a module of it."""
    return path == PEER or path.startswith(f"{PEER}.")


def find_names(module: str) -> Mapping[str, str | Later]:
    """Return the names of a module, given its path below the peer's package.

    Raises
    ------
    MissingPeerName
        If we have nothing of it, with its successor.
    """
    names = MODULES.get(module)
    if isinstance(names, Later):
        raise MissingPeerName(f"{PEER}.{module} {names.successor}")
    if names is None:
        raise MissingPeerName(
            f"Daskfleet has no {PEER}.{module}; it has {_enumerate(MODULES)}"
        )
    return names


def load_name(module: str, name: str) -> Any:  # noqa: ANN401 - classes, functions and modules
    """Return our object for ``name`` in a module below the peer's package.

    Raises
    ------
    MissingPeerName
        If we have none, with its successor.
    """
    names = find_names(module)
    target = names.get(name)
    path = ".".join(part for part in (PEER, module) if part)
    if isinstance(target, Later):
        raise MissingPeerName(f"{path}.{name} {target.successor}")
    if target is None:
        raise MissingPeerName(
            f"Daskfleet has no {name} in {path}; it has {_enumerate(names)}"
        )
    found, _, attribute = target.partition(":")
    ours = importlib.import_module(found)
    return getattr(ours, attribute) if attribute else ours


def _enumerate(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(n for n in names if n and not n.startswith("_")))
