"""Tell what a controller does of a cluster's life, as text that people read.

A story lets things happen on a fake API server, runs the real planner until nothing
is left to do, and writes down each plan that did something: what was asked of the
server, the status that was written, the events that were told.
"""

from datetime import timedelta
from itertools import groupby
from typing import Any

from backends.kubernetes.crd.lifetimes import Lifetimes
from backends.kubernetes.crd.values import ClusterSpec, ClusterStatus
from backends.kubernetes.names import format_scheduler_name
from backends.kubernetes.planning.actions import (
    Action,
    AskWhy,
    CreateChild,
    CreateWorker,
    DeleteAnchor,
    DeleteCluster,
    DeletePod,
    KeepLogTail,
    LookUp,
    Plan,
    StopCluster,
)
from gateway.domain.names import format_worker_name
from tests.support.kube_pods import NOW
from tests.support.kube_world import READY, Controller, FakeServer

_MAX_ROUNDS = 20


class Story:
    """One life, from its beginning.

    Parameters
    ----------
    title
        First line of the text.
    """

    def __init__(
        self,
        title: str,
        *,
        spec: ClusterSpec | None = None,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.server = FakeServer(spec)
        self.controller = Controller(
            self.server, lifetimes=lifetimes or Lifetimes(retention_seconds=3600)
        )
        self._lines = [title, "=" * len(title)]
        self._status = ClusterStatus()

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def happens(self, text: str, *, after: float = 0) -> None:
        """Tell what was done to the world, and what the controller makes of it.

        Parameters
        ----------
        after
            Seconds since what happened before.
        """
        self.controller.now += timedelta(seconds=after)
        self._lines += ["", f"{self._clock()}  {text}"]
        for _ in range(_MAX_ROUNDS):
            self.controller.receive()
            count = len(self.controller.plans)
            before = self._state()
            self.controller.run()
            for plan in self.controller.plans[count:]:
                self._tell(plan)
            if self._state() == before:
                return
        raise AssertionError(f"never settles: {self.text}")

    def scheduler_becomes(self, status: dict[str, Any]) -> None:
        self.server.set_status(format_scheduler_name("c"), status)

    def worker_becomes(self, ordinal: int, status: dict[str, Any]) -> None:
        self.server.set_status(format_worker_name("c", ordinal), status)

    def begins_to_run(self) -> None:
        """Let the scheduler start, call the gateway, and answer at the public port."""
        self.happens("Somebody creates a cluster.")
        self.scheduler_becomes(READY)
        self.happens("The scheduler runs and answers its probe.", after=4)
        self.server.report(first_sync_time=self.controller.now)
        self.controller.route_proved = True
        self.happens(
            "It has called the gateway, and its CA answers at the public port.", after=1
        )

    def _state(self) -> tuple[object, ...]:
        server, memory = self.server, self.controller.memory
        return (
            len(server.pod_events),
            len(server.clusters),
            len(server.services),
            repr(memory),
        )

    def _tell(self, plan: Plan) -> None:
        status = self._describe_status(plan.status)
        actions = [f"- {line}" for line in _describe_actions(plan.actions)]
        told = [f"- event {e.type} {e.reason}: {e.message}" for e in plan.events]
        if not actions and not status:
            return
        lines = [*status, *actions] if plan.stores_first else [*actions, *status]
        self._lines += [f"       {line}" for line in (*lines, *told)]
        self._status = plan.status

    def _describe_status(self, status: ClusterStatus) -> list[str]:
        before, lines = self._status, []
        if (status.phase, status.reason, status.message) != (
            before.phase,
            before.reason,
            before.message,
        ):
            why = ": ".join(filter(None, (status.reason, status.message)))
            lines.append(f"= {status.phase}{f', {why}' if why else ''}")
        workers, old = status.workers, before.workers
        if (workers.members, workers.next) != (old.members, old.next):
            members = workers.members or "nobody"
            lines.append(f"= worker set: {members}; the next is {workers.next}")
        counts = (workers.ready, workers.starting, workers.wanted)
        if counts != (old.ready, old.starting, old.wanted):
            lines.append(
                f"= {workers.ready} workers run, {workers.starting} start, "
                f"{workers.wanted} are wanted"
            )
        if status.log_tail != before.log_tail:
            lines.append(f"= last log lines: {' | '.join(status.log_tail)}")
        return lines

    def _clock(self) -> str:
        seconds = int((self.controller.now - NOW).total_seconds())
        return f"{seconds // 60:02}:{seconds % 60:02}"


def _describe_actions(actions: tuple[Action, ...]) -> list[str]:
    lines = []
    for kind, group in groupby(actions, key=type):
        some = list(group)
        if kind is CreateChild:
            names = ", ".join(str(a.child) for a in some if isinstance(a, CreateChild))
            lines.append(f"create {names}")
        elif kind is CreateWorker:
            ordinals = [a.ordinal for a in some if isinstance(a, CreateWorker)]
            names = ", ".join(format_worker_name("c", n) for n in ordinals)
            lines.append(f"create {names}")
        else:
            lines += [_describe(action) for action in some]
    return lines


def _describe(action: Action) -> str:
    match action:
        case DeletePod(name, _, version):
            only = ", only if nothing has changed about it" if version else ""
            return f"delete {name}{only}"
        case KeepLogTail(name) | AskWhy(name):
            is_log = isinstance(action, KeepLogTail)
            what = "keep the last log lines" if is_log else "read the events"
            return f"{what} of {name}"
        case LookUp(child):
            return f"read the {child} live"
        case DeleteAnchor():
            return "delete the anchor; the garbage collector takes what it owns"
        case StopCluster(reason, message):
            return f"stop the cluster: {reason}, {message}"
        case DeleteCluster():
            return "delete the DaskCluster"
        case _:
            raise AssertionError(action)
