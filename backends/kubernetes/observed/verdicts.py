"""What a pod's status says of Dask: whether it runs, and why not. Pure, total.

The Dask container decides, so that sidecars change nothing; what the platform did
to the pod as a whole (eviction, preemption, loss of the node) comes before it.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct


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
    SETUP = "SetupFailed"
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


class Waiting(Struct, gc=False):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class Running(Struct, gc=False, rename="camel"):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(Struct, gc=False, rename="camel"):
    """A container that has ended."""

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Struct, gc=False):
    """One of the three, as the kubelet has it."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, gc=False):
    """One container, by name."""

    name: str = ""
    state: ContainerState | None = None


class PodCondition(Struct, gc=False, rename="camel"):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Struct, gc=False, rename="camel"):
    """What is read of a pod's status; all else is skipped while decoding."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None

    def find(self, condition: str) -> PodCondition | None:
        """Return the condition of that type."""
        return next((c for c in self.conditions or () if c.type == condition), None)


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


class Verdict(Struct, frozen=True, gc=False, kw_only=True):
    """What a pod counts as; see `backends.kubernetes.observed.pods.PodView`."""

    state: PodState
    cause: Cause | None = None
    text: str = ""
    exit_code: int | None = None
    started: datetime | None = None
    finished: datetime | None = None


def judge(status: PodStatus, name: str, *, is_deleting: bool) -> Verdict:
    """Return what a pod counts as.

    Parameters
    ----------
    name
        Of the Dask container.
    is_deleting
        Whether the pod has a deletion timestamp.
    """
    container = next(
        (c for c in status.container_statuses or () if c.name == name), None
    )
    state = (container.state if container else None) or ContainerState()
    cause, text = _find_disruption(status)
    if is_deleting:
        return Verdict(
            state=PodState.TERMINATING,
            cause=cause or _end_cause(state.terminated) or Cause.DELETED,
            text=text or (state.terminated.message if state.terminated else ""),
            exit_code=state.terminated.exit_code if state.terminated else None,
            started=_started_at(state),
        )
    if status.phase == "Failed" and cause is not None:
        ended = state.terminated or Terminated()
        return _failed(cause, text, ended)
    if state.terminated is not None:
        return _judge_end(state.terminated)
    if status.phase in ("Succeeded", "Failed"):
        return _judge_end_of_pod(status)
    return _judge_life(status, state)


def _judge_life(status: PodStatus, state: ContainerState) -> Verdict:
    if state.running is not None:
        return Verdict(state=PodState.RUNNING, started=state.running.started_at)
    if status.phase == "Running" and state.waiting is None:
        return Verdict(state=PodState.RUNNING)
    if status.phase in ("Pending", "Running"):
        cause, text = _find_obstacle(status, state)
        return Verdict(state=PodState.PENDING, cause=cause, text=text)
    lost = Cause.NODE_LOST if status.phase == "Unknown" else None
    return Verdict(state=PodState.UNKNOWN, cause=lost, text=status.message)


def _judge_end(ended: Terminated) -> Verdict:
    cause = _end_cause(ended)
    if cause is None:
        return Verdict(
            state=PodState.SUCCEEDED,
            exit_code=0,
            started=ended.started_at,
            finished=ended.finished_at,
        )
    return _failed(cause, ended.message, ended)


def _judge_end_of_pod(status: PodStatus) -> Verdict:
    if status.phase == "Succeeded":
        return Verdict(state=PodState.SUCCEEDED)
    for container in status.init_container_statuses or ():
        ended = container.state and container.state.terminated
        if ended and ended.exit_code != 0:
            text = f"{container.name}: exit status {ended.exit_code} {ended.message}"
            return _failed(Cause.INIT, text.rstrip(), Terminated())
    text = status.message or status.reason
    return _failed(Cause.CRASHED, text, Terminated())


def _failed(cause: Cause, text: str, ended: Terminated) -> Verdict:
    return Verdict(
        state=PodState.FAILED,
        cause=cause,
        text=text,
        exit_code=ended.exit_code,
        started=ended.started_at,
        finished=ended.finished_at,
    )


def _end_cause(ended: Terminated | None) -> Cause | None:
    if ended is None or (ended.exit_code == 0 and ended.reason != "OOMKilled"):
        return None
    if ended.reason == "OOMKilled":
        return Cause.OOM_KILLED
    return Cause.START if ended.reason in _START_ENDS else Cause.CRASHED


def _find_disruption(status: PodStatus) -> tuple[Cause | None, str]:
    cause = _POD_REASONS.get(status.reason)
    if cause is not None:
        return cause, status.message
    if status.reason.startswith(_OUT_OF):
        return Cause.REFUSED_BY_NODE, status.message or status.reason
    target = status.find("DisruptionTarget")
    if target is not None and target.status == "True":
        return _DISRUPTIONS.get(target.reason, Cause.EVICTED), target.message
    return None, ""


def _find_obstacle(
    status: PodStatus, state: ContainerState
) -> tuple[Cause | None, str]:
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


def _find_waits(status: PodStatus, state: ContainerState) -> Iterator[Waiting]:
    """Yield what the Dask container waits for: itself, then init containers."""
    if state.waiting is not None:
        yield state.waiting
    for container in status.init_container_statuses or ():
        if container.state is not None and container.state.waiting is not None:
            yield container.state.waiting


def _started_at(state: ContainerState) -> datetime | None:
    if state.running is not None:
        return state.running.started_at
    return state.terminated.started_at if state.terminated else None
