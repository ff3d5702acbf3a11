"""Names, labels and annotations of Kubernetes objects. Pure.

Object names end up in URLs of the API server, in DNS and in labels; what goes
into one is checked where a ``DaskCluster`` is parsed.
"""

import hashlib
import re
from enum import StrEnum
from typing import Final, NamedTuple

GROUP: Final = "daskfleet.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "DaskCluster"
PLURAL: Final = "daskclusters"

TRAEFIK_API_VERSION: Final = "traefik.io/v1alpha1"

# `<name>-worker-<9 digits>` is a pod's host name, which has 63 characters.
MAX_NAME: Final = 46

LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_INSTANCE: Final = f"{GROUP}/instance"
LABEL_CLUSTER: Final = f"{GROUP}/cluster"
LABEL_OWNER: Final = f"{GROUP}/owner"
# Sites select by these of dask-gateway.
PEER_LABEL_INSTANCE: Final = "gateway.dask.org/instance"
PEER_LABEL_CLUSTER: Final = "gateway.dask.org/cluster"

# What no layer of configuration may change: informers and sites find objects by it.
SEALED_LABELS: Final = frozenset(
    {
        LABEL_COMPONENT,
        LABEL_MANAGED_BY,
        LABEL_INSTANCE,
        LABEL_CLUSTER,
        LABEL_OWNER,
        PEER_LABEL_INSTANCE,
        PEER_LABEL_CLUSTER,
    }
)

ANNOTATION_CLUSTER_UID: Final = f"{GROUP}/cluster-uid"
ANNOTATION_ASKED: Final = f"{GROUP}/asked"
ANNOTATION_CREATED: Final = f"{GROUP}/created"
ANNOTATION_HASH: Final = f"{GROUP}/hash"
ANNOTATION_STOP_REASON: Final = f"{GROUP}/stop-reason"
ANNOTATION_STOP_MESSAGE: Final = f"{GROUP}/stop-message"

MANAGED_BY: Final = "daskfleet"

SCHEDULER_CONTAINER: Final = "dask-scheduler"
WORKER_CONTAINER: Final = "dask-worker"

SCHEDULER_PORT: Final = 8786
DASHBOARD_PORT: Final = 8787

# Service names are DNS-1035 labels: they begin with a letter.
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\Z")
_MAX_LABEL: Final = 63


class Component(StrEnum):
    """Value of the component label; the peer's, since sites select by it."""

    SCHEDULER = "dask-scheduler"
    WORKER = "dask-worker"
    CREDENTIALS = "credentials"
    PLUGIN = "scheduler-plugin"
    MIDDLEWARE = "middleware"


class Child(StrEnum):
    """The fixed children of a ``DaskCluster``, in the order of their creation.

    The anchor, a headless Service, owns all others and the worker pods, but
    for the plugin's ConfigMap: clusters of one namespace share that.
    """

    ANCHOR = "anchor"
    CREDENTIALS = "credentials"
    PLUGIN = "plugin"
    SCHEDULER = "scheduler"
    ROUTE_HTTP = "route-http"
    ROUTE_TCP = "route-tcp"

    @property
    def is_route(self) -> bool:
        """True for the children that only the ``ingressroute`` mode has."""
        return self in (Child.ROUTE_HTTP, Child.ROUTE_TCP)


class MiddlewareRef(NamedTuple):
    """A Middleware that the dashboards of a namespace share, in ``ingressroute``."""

    kind: str


class WorkerRef(NamedTuple):
    """A worker pod among the children of a ``DaskCluster``."""

    ordinal: int


def is_object_name(text: str) -> bool:
    """Return whether a ``DaskCluster`` may be called ``text``.

    Examples
    --------
    >>> is_object_name("c0ffee"), is_object_name("0ffee"), is_object_name("c/../x")
    (True, False, False)
    """
    return len(text) <= MAX_NAME and _NAME.match(text) is not None


def is_namespace(text: str) -> bool:
    """Return whether ``text`` can name a namespace."""
    return len(text) <= _MAX_LABEL and _NAMESPACE.match(text) is not None


def format_anchor_name(cluster: str) -> str:
    """Return the name of a cluster's headless Service, and of its routes."""
    return f"dask-{cluster}"


def format_scheduler_name(cluster: str) -> str:
    """Return the name of a cluster's scheduler pod."""
    return f"dask-scheduler-{cluster}"


def format_credentials_name(uid: str, generation: int) -> str:
    """Return the name of the mirrored Secret of the cluster with ``uid``.

    It is unique for all time, so that the Secret can be immutable, and be made
    without ever being read.
    """
    return f"dask-{uid}-{generation}"


def format_plugin_name(content: str) -> str:
    """Return the name of the ConfigMap that holds ``content``."""
    return f"daskfleet-plugin-{hash_text(content)}"


def format_host(cluster: str, namespace: str) -> str:
    """Return the host at which the scheduler answers inside Kubernetes.

    Examples
    --------
    >>> format_host("c1", "team-a")
    'dask-c1.team-a.svc'
    """
    return f"{format_anchor_name(cluster)}.{namespace}.svc"


def hash_text(text: str) -> str:
    """Return 16 hexadecimal digits that stand for ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def escape_label(text: str) -> str:
    """Return ``text`` as a label's value: itself if it can be, else a stable form.

    Different texts give different values, as good as always.

    Examples
    --------
    >>> escape_label("alice"), escape_label("a@b.co")
    ('alice', 'a-b.co-80305c9bb1bb2480')
    """
    if len(text) <= _MAX_LABEL and _LABEL_VALUE.match(text):
        return text
    digest = hash_text(text)
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", text)[: _MAX_LABEL - len(digest) - 1]
    return f"{plain.strip('-_.')}-{digest}".lstrip("-")


def format_selector(labels: dict[str, str]) -> str:
    """Return ``labels`` as a label selector.

    Examples
    --------
    >>> format_selector({"b": "2", "a": "1"})
    'a=1,b=2'
    """
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
