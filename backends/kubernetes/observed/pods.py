"""Typed, total, slim views of pods: what a scheduler or worker pod counts as.

A view never raises on a missing field. The Dask container decides, so that
sidecars change nothing; what the platform did to the pod as a whole (eviction,
preemption, loss of the node) comes before it.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from backends.kubernetes.names import (
    LABEL_CLUSTER,
    LABEL_COMPONENT,
    SCHEDULER_CONTAINER,
    WORKER_CONTAINER,
    Component,
)
from gateway.domain.names import parse_worker_ordinal

_MAX_TEXT: Final = 500


class PodState(StrEnum):
    """What one pod counts as when workers are added up."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"

    @property
    def may_run(self) -> bool:
        """True if work may be going on: on a node that is silent (Unknown) it may."""
        return self in (PodState.RUNNING, PodState.UNKNOWN)

    @property
    def is_live(self) -> bool:
        """True if the pod is, or may yet become, a worker."""
        return self is PodState.PENDING or self.may_run

    @property
    def is_finished(self) -> bool:
        """True if Dask has ended, for good: our pods never restart."""
        return self in (PodState.SUCCEEDED, PodState.FAILED)


class Cause(StrEnum):
    """Why a pod does not run: before it starts, and after its end."""

    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePullFailed"
    CONFIG = "ConfigurationError"
    START = "StartError"
    INIT = "InitContainerFailed"
    REFUSED_BY_NODE = "RefusedByNode"
    CRASHED = "Crashed"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    DEADLINE = "DeadlineExceeded"
    DELETED = "Deleted"

    @property
    def is_platform(self) -> bool:
        """True if neither the user's program nor its settings are to blame."""
        return self in (
            Cause.EVICTED,
            Cause.PREEMPTED,
            Cause.NODE_LOST,
            Cause.REFUSED_BY_NODE,
            Cause.DELETED,
        )


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


class _Waiting(Struct, gc=False):
    reason: str = ""
    message: str = ""


class _Running(Struct, gc=False, rename="camel"):
    started_at: datetime | None = None


class _Terminated(Struct, gc=False, rename="camel"):
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _State(Struct, gc=False):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _Container(Struct, gc=False):
    name: str = ""
    state: _State | None = None


class _Condition(Struct, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None

    def find(self, condition: str) -> _Condition | None:
        return next((c for c in self.conditions or () if c.type == condition), None)


class _Spec(Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(Struct, gc=False):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_Pod)

_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG_REASONS: Final = frozenset({"CreateContainerConfigError"})
_START_REASONS: Final = frozenset(
    {
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
        "CreatePodSandboxError",
        "ConfigPodSandboxError",
    }
)
# Why the runtime could not begin to run what it had made.
_START_ENDS: Final = frozenset({"StartError", "ContainerCannotRun"})
# Reasons of a pod that the platform ended (kubelet, node and pod lifecycle).
_POD_REASONS: Final = {
    "Evicted": Cause.EVICTED,
    "Preempting": Cause.PREEMPTED,
    "NodeShutdown": Cause.NODE_LOST,
    "Shutdown": Cause.NODE_LOST,
    "Terminated": Cause.NODE_LOST,
    "NodeLost": Cause.NODE_LOST,
    "DeadlineExceeded": Cause.DEADLINE,
    "UnexpectedAdmissionError": Cause.REFUSED_BY_NODE,
    "NodeAffinity": Cause.REFUSED_BY_NODE,
    "NodePorts": Cause.REFUSED_BY_NODE,
    "Taint": Cause.REFUSED_BY_NODE,
}
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": Cause.PREEMPTED,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "TerminationByKubelet": Cause.EVICTED,
}
_OUT_OF: Final = "OutOf"  # OutOfcpu, OutOfmemory, OutOfpods: the node was full


class _Verdict(Struct, frozen=True, gc=False, kw_only=True):
    state: PodState
    cause: Cause | None = None
    text: str = ""
    exit_code: int | None = None
    started: datetime | None = None
    finished: datetime | None = None


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
    metadata, status = pod.metadata, pod.status or _Status()
    labels = metadata.labels or {}
    is_scheduler = labels.get(LABEL_COMPONENT) == Component.SCHEDULER
    cluster = sys.intern(labels.get(LABEL_CLUSTER, ""))
    owners = metadata.owner_references or [_Owner()]
    container = SCHEDULER_CONTAINER if is_scheduler else WORKER_CONTAINER
    verdict = _judge(status, container, is_deleting=bool(metadata.deletion_timestamp))
    scheduled, ready = status.find("PodScheduled"), status.find("Ready")
    is_scheduled = scheduled is not None and scheduled.status == "True"
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
        text=verdict.text[:_MAX_TEXT],
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


def _judge(status: _Status, name: str, *, is_deleting: bool) -> _Verdict:
    container = next(
        (c for c in status.container_statuses or () if c.name == name), None
    )
    state = (container.state if container else None) or _State()
    cause, text = _find_disruption(status)
    if is_deleting:
        return _Verdict(
            state=PodState.TERMINATING,
            cause=cause or _end_cause(state.terminated) or Cause.DELETED,
            text=text or (state.terminated.message if state.terminated else ""),
            exit_code=state.terminated.exit_code if state.terminated else None,
            started=_started_at(state),
        )
    if status.phase == "Failed" and cause is not None:
        ended = state.terminated or _Terminated()
        return _failed(cause, text, ended)
    if state.terminated is not None:
        return _judge_end(state.terminated)
    if status.phase in ("Succeeded", "Failed"):
        return _judge_end_of_pod(status)
    return _judge_life(status, state)


def _judge_life(status: _Status, state: _State) -> _Verdict:
    if state.running is not None:
        return _Verdict(state=PodState.RUNNING, started=state.running.started_at)
    if status.phase == "Running" and state.waiting is None:
        return _Verdict(state=PodState.RUNNING)
    if status.phase in ("Pending", "Running"):
        cause, text = _find_obstacle(status, state)
        return _Verdict(state=PodState.PENDING, cause=cause, text=text)
    lost = Cause.NODE_LOST if status.phase == "Unknown" else None
    return _Verdict(state=PodState.UNKNOWN, cause=lost, text=status.message)


def _judge_end(ended: _Terminated) -> _Verdict:
    cause = _end_cause(ended)
    if cause is None:
        return _Verdict(
            state=PodState.SUCCEEDED,
            exit_code=0,
            started=ended.started_at,
            finished=ended.finished_at,
        )
    return _failed(cause, ended.message, ended)


def _judge_end_of_pod(status: _Status) -> _Verdict:
    if status.phase == "Succeeded":
        return _Verdict(state=PodState.SUCCEEDED)
    for container in status.init_container_statuses or ():
        ended = container.state and container.state.terminated
        if ended and ended.exit_code != 0:
            text = f"{container.name}: exit status {ended.exit_code} {ended.message}"
            return _failed(Cause.INIT, text.rstrip(), _Terminated())
    text = status.message or status.reason
    return _failed(Cause.CRASHED, text, _Terminated())


def _failed(cause: Cause, text: str, ended: _Terminated) -> _Verdict:
    return _Verdict(
        state=PodState.FAILED,
        cause=cause,
        text=text,
        exit_code=ended.exit_code,
        started=ended.started_at,
        finished=ended.finished_at,
    )


def _end_cause(ended: _Terminated | None) -> Cause | None:
    if ended is None or (ended.exit_code == 0 and ended.reason != "OOMKilled"):
        return None
    if ended.reason == "OOMKilled":
        return Cause.OOM_KILLED
    return Cause.START if ended.reason in _START_ENDS else Cause.CRASHED


def _find_disruption(status: _Status) -> tuple[Cause | None, str]:
    cause = _POD_REASONS.get(status.reason)
    if cause is not None:
        return cause, status.message
    if status.reason.startswith(_OUT_OF):
        return Cause.REFUSED_BY_NODE, status.message or status.reason
    target = status.find("DisruptionTarget")
    if target is not None and target.status == "True":
        return _DISRUPTIONS.get(target.reason, Cause.EVICTED), target.message
    return None, ""


def _find_obstacle(status: _Status, state: _State) -> tuple[Cause | None, str]:
    scheduled = status.find("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return Cause.UNSCHEDULABLE, scheduled.message or scheduled.reason
    for waiting in _find_waits(status, state):
        if waiting.reason in _IMAGE_REASONS:
            return Cause.IMAGE_PULL, waiting.message or waiting.reason
        if waiting.reason in _CONFIG_REASONS:
            return Cause.CONFIG, waiting.message or waiting.reason
        if waiting.reason in _START_REASONS:
            return Cause.START, waiting.message or waiting.reason
    return None, ""


def _find_waits(status: _Status, state: _State) -> Iterator[_Waiting]:
    """Yield what the Dask container waits for: itself, then init containers."""
    if state.waiting is not None:
        yield state.waiting
    for container in status.init_container_statuses or ():
        if container.state is not None and container.state.waiting is not None:
            yield container.state.waiting


def _started_at(state: _State) -> datetime | None:
    if state.running is not None:
        return state.running.started_at
    return state.terminated.started_at if state.terminated else None
