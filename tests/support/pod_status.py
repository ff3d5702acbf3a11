"""Statuses of pods as a kubelet 1.36 writes them. Pure; compared with a real one's."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

Pod = Mapping[str, Any]
Status = dict[str, Any]

_READY = ("Ready", "ContainersReady")


def held(
    pod: Pod, now: str, *, reason: str, message: str, address: str, host: str
) -> Status:
    """Return the status of a pod whose containers wait for ``reason``.

    With ``ContainerCreating`` its sandbox is not there yet, and so no address.
    """

    def wait(_: str) -> Status:
        waiting = {"reason": reason, "message": message}
        return {"waiting": {key: text for key, text in waiting.items() if text}}

    status = _common(pod, now, host, "Pending") | {
        "conditions": _conditions(pod, now, unready=names(pod)),
        "containerStatuses": _containers(pod, wait),
    }
    if reason == "ContainerCreating":
        status["conditions"][0]["status"] = "False"
        return status
    return status | _placed(pod, now, address)


def unschedulable(now: str, message: str) -> Status:
    """Return what the scheduler says of a pod that fits nowhere."""
    condition = _condition("PodScheduled", now, is_true=False)
    return {"conditions": [condition | {"reason": "Unschedulable", "message": message}]}


def running(
    pod: Pod, now: str, *, address: str, host: str, is_ready: bool = True
) -> Status:
    """Return the status of a pod all whose containers run, and are ready or not."""
    unready = [] if is_ready else names(pod)
    return _common(pod, now, host, "Running") | {
        "conditions": _conditions(pod, now, unready=unready),
        "initContainerStatuses": _initialized(pod, now),
        "containerStatuses": _containers(
            pod, lambda _: {"running": {"startedAt": now}}
        ),
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def ended(
    pod: Pod, now: str, *, codes: Mapping[str, int], reason: str = "", message: str = ""
) -> Status:
    """Return the status after containers have ended, with restartPolicy Never.

    Parameters
    ----------
    codes
        Exit code of each container that has ended; the others run on.
    reason, message
        Instead of "Completed" or "Error".
    """
    before = {one["name"]: one for one in pod["status"].get("containerStatuses", ())}

    def state(name: str) -> Status:
        was: Status = before.get(name, {}).get("state", {})
        if name not in codes or "terminated" in was:
            return was or {"waiting": {"reason": "ContainerCreating"}}
        started = was.get("running", {}).get("startedAt", now)
        said = reason or ("Error" if codes[name] else "Completed")
        end = {"exitCode": codes[name], "reason": said, "message": message}
        times = {"startedAt": started, "finishedAt": now}
        end |= times | {"containerID": _container_id(pod, name)}
        return {"terminated": {key: value for key, value in end.items() if value != ""}}

    statuses = _containers(pod, state)
    ends = [one["state"].get("terminated") for one in statuses]
    observed: Status = {"observedGeneration": _generation(pod)}
    if not all(ends):
        over = [one["name"] for one in statuses if "running" not in one["state"]]
        conditions = _conditions(pod, now, unready=over, is_initialized=True)
        return observed | {"conditions": conditions, "containerStatuses": statuses}
    is_failed = any(end["exitCode"] for end in ends)
    return observed | {
        "phase": "Failed" if is_failed else "Succeeded",
        "conditions": _over(pod, now, "PodFailed" if is_failed else "PodCompleted"),
        "containerStatuses": statuses,
    }


def evicted(pod: Pod, now: str, message: str) -> Status:
    """Return the status of a pod that the kubelet put out for want of something."""
    codes = dict.fromkeys(names(pod), 137)
    verdict = {"phase": "Failed", "reason": "Evicted", "message": message}
    return ended(pod, now, codes=codes) | verdict


def disrupted(now: str, *, reason: str, message: str) -> Status:
    """Return the condition by which a pod's end is told to be no fault of its own."""
    condition = _condition("DisruptionTarget", now)
    return {"conditions": [condition | {"reason": reason, "message": message}]}


def names(pod: Pod) -> list[str]:
    """Return the names of a pod's containers."""
    return [container["name"] for container in pod["spec"]["containers"]]


def _common(pod: Pod, now: str, host: str, phase: str) -> Status:
    return {
        "phase": phase,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": pod["status"].get("startTime", now),
        "observedGeneration": _generation(pod),
    }


def _placed(pod: Pod, now: str, address: str) -> Status:
    return {
        "initContainerStatuses": _initialized(pod, now),
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def _generation(pod: Pod) -> int:
    return int(pod["metadata"].get("generation", 1))


def _condition(kind: str, now: str, *, is_true: bool = True) -> Status:
    status = "True" if is_true else "False"
    # The API server keeps null fields of a patch out, as it does the kubelet's.
    return {"type": kind, "status": status, "lastTransitionTime": now}


def _conditions(
    pod: Pod, now: str, *, unready: Iterable[str] = (), is_initialized: bool = True
) -> list[Status]:
    lacking = " ".join(unready)
    lack = {
        "reason": "ContainersNotReady",
        "message": f"containers with unready status: [{lacking}]",
    }
    clear = {"reason": None, "message": None}
    observed = {"observedGeneration": _generation(pod)}
    return [
        _condition("PodReadyToStartContainers", now) | observed,
        _condition("Initialized", now, is_true=is_initialized) | observed,
        *(
            _condition(kind, now, is_true=not lacking)
            | observed
            | (lack if lacking else clear)
            for kind in _READY
        ),
        _condition("PodScheduled", now) | observed,
    ]


def _over(pod: Pod, now: str, reason: str) -> list[Status]:
    observed = {"observedGeneration": _generation(pod)}
    is_failed = reason == "PodFailed"
    initialized = _condition("Initialized", now) | observed
    if not is_failed:
        initialized |= {"reason": reason}
    return [
        _condition("PodReadyToStartContainers", now, is_true=False) | observed,
        initialized,
        *(
            _condition(kind, now, is_true=False)
            | observed
            | {"reason": reason, "message": None}
            for kind in _READY
        ),
        _condition("PodScheduled", now) | observed,
    ]


def _containers(pod: Pod, state: Callable[[str], Status]) -> list[Status]:
    return [
        _container(pod, container, state(container["name"]))
        for container in pod["spec"]["containers"]
    ]


def _initialized(pod: Pod, now: str) -> list[Status]:
    statuses = []
    for container in pod["spec"].get("initContainers", ()):
        times = {"startedAt": now, "finishedAt": now}
        end = times | {"exitCode": 0, "reason": "Completed"}
        end |= {"containerID": _container_id(pod, container["name"])}
        status = _container(pod, container, {"terminated": end})
        statuses.append(status | {"ready": True})
    return statuses


def _container(pod: Pod, container: Mapping[str, Any], state: Status) -> Status:
    is_running = "running" in state
    status = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "lastState": {},
        "ready": is_running,
        "started": is_running,
        "restartCount": 0,
        "state": state,
    }
    if "waiting" in state:
        return status
    digest = uuid5(NAMESPACE_URL, container["image"]).hex * 2
    return status | {
        "containerID": _container_id(pod, container["name"]),
        "imageID": f"sha256:{digest}",
    }


def _container_id(pod: Pod, name: str) -> str:
    key = f"{pod['metadata']['uid']}/{name}"
    return f"containerd://{uuid5(NAMESPACE_URL, key).hex * 2}"
