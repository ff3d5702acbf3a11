"""All that the objects of one cluster are made of, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import LABEL_NAME, MANAGED_BY

Manifest = dict[str, Any]

# Modules rather than scripts: distributed took `dask-scheduler` away in 2026.6,
# and `dask scheduler` is younger than 2022.10.
SCHEDULER_COMMAND: Final = ("python", "-m", "distributed.cli.dask_scheduler")
WORKER_COMMAND: Final = ("python", "-m", "distributed.cli.dask_worker")

# Any user but root that an image is likely to have files readable for.
_USER: Final = 1000


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """Who owns an object: in the same namespace, or cluster-scoped."""

    api_version: str
    kind: str
    name: str
    uid: str

    def format(self) -> Manifest:
        """Return it as it stands in ``metadata.ownerReferences``."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
        }


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What the pods of one role are, as a configuration has it.

    Parameters
    ----------
    image
        Of the Dask container.
    command
        Words that start the program; our arguments follow.
    image_pull_policy, image_pull_secrets
        As in Kubernetes; ``None`` leaves it to the platform.
    cores, memory_bytes
        Requested. Three decimals of a core count.
    cores_limit, memory_limit_bytes
        ``None`` is as much as requested, and no more.
    threads
        Of one worker; ``None``: the whole cores of its limit, at least 1.
    environment
        Variables; those that secure the cluster cannot be among them.
    template
        A sparse PodTemplateSpec of the operator's.
    """

    image: str
    command: tuple[str, ...]
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    cores: float = 1.0
    memory_bytes: int = 2 * 2**30
    cores_limit: float | None = None
    memory_limit_bytes: int | None = None
    threads: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """How IngressRoute and IngressRouteTCP objects are made.

    Parameters
    ----------
    web_entry_point, tcp_entry_point
        Of the platform's Traefik.
    prefix
        What every public path starts with; "" for the root.
    middlewares
        ``(name, namespace)`` of the platform's own middlewares for dashboards, in
        this order; they come before ours. "" is the cluster's namespace.
    login_url
        Whom Traefik asks whether a visitor may see a dashboard; "": the API at the
        URL of schedulers.
    """

    web_entry_point: str = "web"
    tcp_entry_point: str = "tcp"
    prefix: str = ""
    middlewares: tuple[tuple[str, str], ...] = ()
    login_url: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a controller's configuration says of all clusters.

    Parameters
    ----------
    instance
        Of this gateway; clusters of another have another one.
    api_url
        Where schedulers reach the API; ends in ``/api``.
    plugin
        Text of the scheduler's plugin.
    scheduler, worker
        What a cluster has that does not say otherwise.
    api_ca
        Certificates (PEM) that schedulers trust for the API; ``None``: the
        image's own.
    labels, annotations
        On every object; ours come before them.
    run_as_user
        User of all processes; ``None`` where the platform chooses.
    lifetimes
        What a cluster has that does not say otherwise.
    routes
        ``None`` unless the controller makes route objects.
    """

    instance: str
    api_url: str
    plugin: str = field(repr=False)
    scheduler: PodSettings
    worker: PodSettings
    api_ca: str | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=lambda: {LABEL_NAME: MANAGED_BY})
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = _USER
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    routes: RouteSettings | None = None


@dataclass(frozen=True, slots=True)
class Blueprint:
    """All that the objects of one cluster are made of.

    Parameters
    ----------
    cluster
        Its spec is without problems.
    settings
        The controller's.
    owner
        The chart's anchor: owns the cluster's anchor and the plugin.
    anchor_uid
        Of the cluster's own anchor, once it was made; owns all else.
    credentials_generation
        Of the mirrored Secret that new pods mount.
    """

    cluster: DaskCluster
    settings: Settings
    owner: OwnerRef
    anchor_uid: str | None = None
    credentials_generation: int = 1
