"""A stand-in for scheduler and kubelet: it gives pods a status and runs nothing.

For scale, and for faults that a real one cannot be made to show at will. Each pod
gets the fate that ``decide`` names for it; the methods change it later. Its
statuses are compared with a real kubelet's in ``test_harness_kubelet.py``. It lives
in a thread with a loop of its own, so that it is called from any test, and blocks.
"""

import asyncio
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar

from tests.harness.control_plane import ControlPlane
from tests.support import pod_status
from tests.support.kubelet_calls import PodCalls
from tests.support.pod_fates import (
    CREATING,
    IMAGE_MISSING,
    RUNS,
    SECRET_MISSING,
    UNSCHEDULABLE,
    Fate,
    Hold,
)

__all__ = [
    "CREATING",
    "IMAGE_MISSING",
    "RUNS",
    "SECRET_MISSING",
    "UNSCHEDULABLE",
    "Fate",
    "Hold",
    "StandInKubelet",
]

T = TypeVar("T")

_HOST = "10.0.0.1"
# The node's lease lives 40 s; a loaded machine may be late.
_HEARTBEAT_S = 10.0
_CALL_S = 60.0
_FAREWELL_S = 5.0


Pod = Mapping[str, Any]
Decide = Callable[[Pod], Fate]


class StandInKubelet:
    """One node that every pod fits on.

    Parameters
    ----------
    plane
        Of the pods; no real scheduler may run there.
    decide
        Names the fate of each new pod; by default all run at once.
    takes
        Whether a pod without a node gets this one; by default all do.

    Notes
    -----
    All methods wait until the API server has what they did. Pods are treated as
    those with restartPolicy Never.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        name: str = "stand-in",
        decide: Decide = lambda _: RUNS,
        takes: Callable[[Pod], bool] = lambda _: True,
    ) -> None:
        self.name = name
        self.takes = takes
        self.decide = decide
        self._calls = PodCalls(plane)
        self._thread = threading.Thread(target=self._live, name=name)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = asyncio.Event()
        self._is_registered = threading.Event()
        self._failure: BaseException | None = None
        self._is_frozen = False
        self._fates: dict[str, Fate] = {}
        self._steps: set[asyncio.Task[None]] = set()
        self._begun: dict[str, set[str]] = {}
        self._addresses = itertools.count(256)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_registered.wait()
        self._raise_failure()
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it has failed, and its loop is closed
                self._loop.call_soon_threadsafe(self._stop_asked.set)
        self._thread.join()
        self._raise_failure()

    def run(self, namespace: str, name: str) -> None:
        """Let a held pod run."""
        self._await(self._release(namespace, name))

    def end(
        self,
        namespace: str,
        name: str,
        exit_code: int,
        *,
        container: str | None = None,
        reason: str = "",
        message: str = "",
    ) -> None:
        """End a pod's containers, or one of them while the others run on.

        Parameters
        ----------
        reason
            Such as ``OOMKilled``; Completed or Error by itself.
        """

        def status(pod: Pod) -> pod_status.Status:
            names = [container] if container else pod_status.names(pod)
            codes = dict.fromkeys(names, exit_code)
            texts = {"reason": reason, "message": message}
            return pod_status.ended(pod, _now(), codes=codes, **texts)

        self._await(self._change(namespace, name, status))

    def evict(self, namespace: str, name: str, message: str) -> None:
        """Put a pod out, as for want of memory; it stays as Failed."""
        self._await(
            self._change(
                namespace, name, lambda pod: pod_status.evicted(pod, _now(), message)
            )
        )

    def preempt(self, namespace: str, name: str) -> None:
        """Delete a pod as the scheduler does to make room for a better one."""
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        self._await(
            self._change(
                namespace,
                name,
                lambda _: pod_status.disrupted(
                    _now(), reason="PreemptionByScheduler", message=message
                ),
            )
        )
        self._await(self._calls.send("DELETE", _path(namespace, name)))

    def freeze(self) -> None:
        """Stop answering: pods stay as they are, and deleted ones Terminating."""
        self._is_frozen = True

    def drop_node(self) -> None:
        """Take the node away for good, with what the pod collector then does."""
        self.freeze()
        self._await(self._drop())

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "not started"
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(_CALL_S)

    def _live(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised in the test's thread
            self._failure = failure
        finally:
            self._is_registered.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._calls:
            await self._register()
            self._is_registered.set()
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self._beat()),
                    tasks.create_task(self._follow(tasks)),
                ]
                await self._stop_asked.wait()
                for task in (*running, *self._steps):
                    task.cancel()
            # Its pods are then nobody's, and collected where controllers run.
            with suppress(TimeoutError):  # the API server may be gone, too
                async with asyncio.timeout(_FAREWELL_S):
                    await self._calls.send("DELETE", f"/api/v1/nodes/{self.name}")

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        async for kind, pod in self._calls.watch_pods():
            self._observe(kind, pod, tasks)

    async def _register(self) -> None:
        node = {"metadata": {"name": self.name}}
        await self._calls.send("POST", "/api/v1/nodes", node)
        room = {"cpu": "100000", "memory": "100Ti", "pods": "100000"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        address = {"type": "InternalIP", "address": _HOST}
        status = {"capacity": room, "allocatable": room, "addresses": [address]}
        status |= {"conditions": [ready]}
        path = f"/api/v1/nodes/{self.name}/status"
        await self._calls.send("PATCH", path, {"status": status})

    async def _beat(self) -> None:
        # Without it the node would be NotReady, and lose its pods, in 40 s.
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40}
        lease = {"metadata": {"name": self.name}, "spec": spec}
        await self._calls.send("POST", leases, lease)
        while True:
            if not self._is_frozen:
                renewed = {"spec": {"renewTime": _now(microseconds=True)}}
                await self._calls.send("PATCH", f"{leases}/{self.name}", renewed)
            await asyncio.sleep(_HEARTBEAT_S)

    def _observe(self, kind: str, pod: Pod, tasks: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._fates.pop(uid, None)
            self._begun.pop(uid, None)
            return
        step = self._next_step(pod)
        begun = self._begun.setdefault(uid, set())
        if step is None or self._is_frozen or step.__name__ in begun:
            return
        begun.add(step.__name__)
        running = tasks.create_task(step(pod))
        self._steps.add(running)
        running.add_done_callback(self._steps.discard)

    def _next_step(self, pod: Pod) -> Callable[[Pod], Coroutine[Any, Any, None]] | None:
        is_ending = "deletionTimestamp" in pod["metadata"]
        match pod["spec"].get("nodeName"):
            case None:
                is_mine = not is_ending and self.takes(pod)
                return self._place if is_mine else None
            case self.name:
                if is_ending:
                    return self._stop
                return self._start if pod["status"]["phase"] == "Pending" else None
        return None

    async def _place(self, pod: Pod) -> None:
        fate = self._fate(pod)
        if fate.hold is None or fate.hold.reason != UNSCHEDULABLE.reason:
            await self._bind(pod)
            return
        text = fate.hold.message
        await self._write(pod, pod_status.unschedulable(_now(), text))
        await self._tell(pod, "FailedScheduling", text)

    async def _start(self, pod: Pod) -> None:
        fate = self._fate(pod)
        if fate.hold is not None:
            words = {"reason": fate.hold.reason, "message": fate.hold.message}
            words |= {"address": self._next_address(), "host": _HOST}
            status = pod_status.held(pod, _now(), **words)
            await self._write(pod, status)
            if fate.hold.message:
                await self._tell(pod, "Failed", f"Error: {fate.hold.reason}")
            return
        await asyncio.sleep(fate.start_s)
        await self._set_running(pod)
        if fate.exit_code is not None:
            await asyncio.sleep(fate.run_s)
            codes = dict.fromkeys(pod_status.names(pod), fate.exit_code)
            await self._change(
                *_key(pod), lambda seen: pod_status.ended(seen, _now(), codes=codes)
            )

    async def _stop(self, pod: Pod) -> None:
        fate = self._fate(pod)
        await asyncio.sleep(fate.stop_s)
        codes = dict.fromkeys(pod_status.names(pod), fate.stop_code)
        if pod["status"]["phase"] == "Running":
            await self._write(pod, pod_status.ended(pod, _now(), codes=codes))
        await self._remove(pod)

    async def _release(self, namespace: str, name: str) -> None:
        pod = await self._calls.get(_path(namespace, name))
        self._fates[pod["metadata"]["uid"]] = replace(self._fate(pod), hold=None)
        if "nodeName" in pod["spec"]:
            await self._set_running(pod)
        else:
            await self._bind(pod)

    async def _drop(self) -> None:
        await self._calls.send("DELETE", f"/api/v1/nodes/{self.name}")
        words = {
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        mine = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}"
        for pod in (await self._calls.get(mine))["items"]:
            status = pod_status.disrupted(_now(), **words) | {"phase": "Failed"}
            await self._write(pod, status)
            await self._remove(pod)

    async def _bind(self, pod: Pod) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await self._calls.send("POST", f"{_path(*_key(pod))}/binding", binding)

    async def _set_running(self, pod: Pod) -> None:
        address = pod["status"].get("podIP") or self._next_address()
        words = {"address": address, "host": _HOST}
        is_ready = self._fate(pod).is_ready
        status = pod_status.running(pod, _now(), **words, is_ready=is_ready)
        await self._write(pod, status)

    def _next_address(self) -> str:
        third, fourth = divmod(next(self._addresses) % 2**16, 256)
        return f"10.244.{third}.{fourth}"

    async def _change(
        self, namespace: str, name: str, status: Callable[[Pod], pod_status.Status]
    ) -> None:
        # The watch may lag behind what the test has already seen.
        pod = await self._calls.get(_path(namespace, name))
        await self._write(pod, status(pod))

    async def _write(self, pod: Pod, status: pod_status.Status) -> None:
        # Of this pod, never of a later one with its name.
        uid = {"uid": pod["metadata"]["uid"]}
        patch = {"metadata": uid, "status": status}
        await self._calls.send("PATCH", f"{_path(*_key(pod))}/status", patch)

    async def _remove(self, pod: Pod) -> None:
        uid = {"uid": pod["metadata"]["uid"]}
        options = {"gracePeriodSeconds": 0, "preconditions": uid}
        await self._calls.send("DELETE", _path(*_key(pod)), options)

    async def _tell(self, pod: Pod, reason: str, message: str) -> None:
        namespace, name = _key(pod)
        about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace}
        about |= {"name": name, "uid": pod["metadata"]["uid"]}
        event = {
            "metadata": {"generateName": f"{name}."},
            "involvedObject": about,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": _now(),
            "lastTimestamp": _now(),
            "count": 1,
            "source": {"component": self.name},
        }
        await self._calls.send("POST", f"/api/v1/namespaces/{namespace}/events", event)

    def _fate(self, pod: Pod) -> Fate:
        uid = pod["metadata"]["uid"]
        if uid not in self._fates:
            self._fates[uid] = self.decide(pod)
        return self._fates[uid]


def _key(pod: Pod) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now(*, microseconds: bool = False) -> str:
    now = dt.datetime.now(dt.UTC)  # noqa: TID251 - as a kubelet does on its node
    return now.strftime(
        "%Y-%m-%dT%H:%M:%S.%fZ" if microseconds else "%Y-%m-%dT%H:%M:%SZ"
    )
