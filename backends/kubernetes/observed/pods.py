"""Typed, total, slim views of pods: what a scheduler or worker pod counts as.

A view never raises on a missing field.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from backends.kubernetes.names import (
    LABEL_CLUSTER,
    LABEL_COMPONENT,
    SCHEDULER_CONTAINER,
    WORKER_CONTAINER,
    Component,
)
from backends.kubernetes.observed.verdicts import Cause, PodState, PodStatus, judge
from gateway.domain.names import parse_worker_ordinal

_MAX_TEXT: Final = 500


class PodView(Struct, frozen=True, gc=False, kw_only=True):
    """A scheduler or worker pod.

    Parameters
    ----------
    cluster
        Name of its ``DaskCluster``, by the label.
    is_scheduler
        By the label; else it is a worker.
    owner_uid
        Uid of its first owner: the anchor.
    ordinal
        In a worker's name; ``None`` for another name.
    state, cause
        See `PodState` and `Cause`; ``cause`` is ``None`` while all is well.
    text
        The platform's words for ``cause``, shortened; "" if it said nothing.
    exit_code
        Of the Dask container, once it has ended.
    is_ready
        Whether the readiness probe passes.
    created, scheduled, started, finished
        By the API server's clock or the node's; ``None`` while unknown.
    node
        Where it runs; "" before that is decided.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    cluster: str
    is_scheduler: bool = False
    owner_uid: str = ""
    ordinal: int | None = None
    state: PodState = PodState.UNKNOWN
    cause: Cause | None = None
    text: str = ""
    exit_code: int | None = None
    is_ready: bool = False
    created: datetime | None = None
    scheduled: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    node: str = ""


class _Owner(Struct, gc=False):
    uid: str = ""


class _Metadata(Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Spec(Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(Struct, gc=False):
    metadata: _Metadata
    spec: _Spec | None = None
    status: PodStatus | None = None


class _Resources(Struct):
    limits: dict[str, str | int] | None = None


class _Container(Struct):
    name: str = ""
    resources: _Resources | None = None


class _Containers(Struct):
    containers: list[_Container] = field(default_factory=list)


class _PodOfContainers(Struct):
    spec: _Containers = field(default_factory=_Containers)


_DECODER: Final = msgspec.json.Decoder(_Pod)
_CONTAINERS: Final = msgspec.json.Decoder(_PodOfContainers)


def parse_pod(raw: bytes | Mapping[str, Any]) -> PodView:
    """Return the pod in ``raw``, JSON or the same decoded.

    Raises
    ------
    ValueError
        If it has no name, or a field that an API server fills has another type:
        then it is no object of an API server.
    """
    pod = (
        _DECODER.decode(raw)
        if isinstance(raw, bytes | bytearray | memoryview)
        else msgspec.convert(raw, _Pod)
    )
    metadata, status = pod.metadata, pod.status or PodStatus()
    labels = metadata.labels or {}
    is_scheduler = labels.get(LABEL_COMPONENT) == Component.SCHEDULER
    cluster = sys.intern(labels.get(LABEL_CLUSTER, ""))
    owners = metadata.owner_references or [_Owner()]
    container = SCHEDULER_CONTAINER if is_scheduler else WORKER_CONTAINER
    verdict = judge(status, container, is_deleting=bool(metadata.deletion_timestamp))
    scheduled, ready = status.find("PodScheduled"), status.find("Ready")
    is_scheduled = scheduled is not None and scheduled.status == "True"
    text = verdict.text
    if verdict.cause is Cause.OOM_KILLED:
        text = text or _describe_limit(raw, container)
    return PodView(
        namespace=sys.intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        cluster=cluster,
        is_scheduler=is_scheduler,
        owner_uid=sys.intern(owners[0].uid),
        ordinal=None if is_scheduler else parse_worker_ordinal(cluster, metadata.name),
        state=verdict.state,
        cause=verdict.cause,
        text=text[:_MAX_TEXT],
        exit_code=verdict.exit_code,
        is_ready=ready is not None and ready.status == "True",
        created=metadata.creation_timestamp,
        scheduled=scheduled.last_transition_time
        if scheduled is not None and is_scheduled
        else None,
        started=verdict.started,
        finished=verdict.finished,
        node=sys.intern(pod.spec.node_name if pod.spec else ""),
    )


def _describe_limit(raw: bytes | Mapping[str, Any], name: str) -> str:
    """Return how much memory a container might have; "" if that is not said.

    Decoded apart, since of a thousand pods hardly one has to tell it.
    """
    pod = (
        _CONTAINERS.decode(raw)
        if isinstance(raw, bytes | bytearray | memoryview)
        else msgspec.convert(raw, _PodOfContainers)
    )
    for container in pod.spec.containers:
        if container.name == name and container.resources is not None:
            limit = (container.resources.limits or {}).get("memory", "")
            return f"its limit is {limit}" if limit else ""
    return ""
