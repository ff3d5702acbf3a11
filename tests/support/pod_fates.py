"""What a stand-in kubelet makes of a pod."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a pod stays Pending.

    Parameters
    ----------
    reason
        As in the waiting state of its containers, or ``Unschedulable``.
    """

    reason: str
    message: str = ""


UNSCHEDULABLE = Hold("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
IMAGE_MISSING = Hold("ImagePullBackOff", 'Back-off pulling image "test.local/nope:1"')
SECRET_MISSING = Hold("CreateContainerConfigError", 'secret "nope" not found')
CREATING = Hold("ContainerCreating")


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a pod.

    Parameters
    ----------
    hold
        Keeps it Pending until `StandInKubelet.run`.
    start_s
        Seconds from its making until it runs.
    is_ready
        Whether its probes pass once it runs.
    exit_code
        With which its containers end by themselves; None for never.
    run_s
        Seconds until then.
    stop_s
        Seconds from a request to delete it until it is gone.
    stop_code
        With which its containers end then.
    """

    hold: Hold | None = None
    start_s: float = 0.0
    is_ready: bool = True
    exit_code: int | None = None
    run_s: float = 0.0
    stop_s: float = 0.0
    stop_code: int = 0


RUNS = Fate()
