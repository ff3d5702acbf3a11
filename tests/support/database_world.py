"""One cluster, its rows, a platform, a plugin and several servers. All pure.

Servers read, plan, write and act in steps that a test may interleave, lose and
repeat as it likes: a crash is a server that forgets.
"""

from dataclasses import dataclass, field, replace

from backends.database.actions import (
    Action,
    Change,
    DeleteCluster,
    ForgetCluster,
    Plan,
    StartJob,
    StopJob,
)
from backends.database.launcher import JobRef, JobState, JobView, Role
from backends.database.observe import Memory
from backends.database.observed import Observed, Trouble
from backends.database.plan import plan, wants_route_proof, wants_scheduler_proof
from backends.database.records import (
    ClusterRecord,
    ClusterSpec,
    Snapshot,
    WorkerStage,
    bump_versions,
)
from backends.database.requests import (
    request_adapt,
    request_scale,
    request_stop,
    take_report,
)
from gateway.domain.cluster import StopReason
from gateway.domain.config import ResolvedConfig
from gateway.domain.sync import Ports, SyncReport
from tests.support.fake_launcher import Platform

RETENTION_MS = 3_600_000
NAME = "c1"


class Lost(Exception):
    """The answer of a call was lost; what it did was done."""


@dataclass
class Server:
    """What one gateway holds in memory."""

    memory: Memory = field(default_factory=Memory)
    snapshot: Snapshot | None = None
    plan: Plan | None = None
    actions: list[Action] = field(default_factory=list)
    serving_since_ms: int = 0


class World:
    """The database, the platform and all who act on them."""

    def __init__(self, **config: object) -> None:
        self.now_ms = 1_000_000
        self.platform = Platform(now_ms=lambda: self.now_ms)
        spec = ClusterSpec(config=ResolvedConfig(**config))  # type: ignore[arg-type]  # the test's own
        self.rows: Snapshot | None = Snapshot(
            ClusterRecord(1, NAME, "alice", self.now_ms), spec
        )
        self.servers = [Server(), Server()]
        self.is_refused = False
        self.is_queueing = False
        self.is_routable = True
        self.old_views: dict[JobRef, JobView] = {}
        self.draining: set[str] = set()
        self.told = 0
        self.was_terminal = False

    # The database.

    def commit(self, seen: Snapshot, change: Change) -> bool:
        """Write ``change`` over ``seen``; false if that has passed."""
        rows = self.rows
        if rows is None or rows.cluster.version != seen.cluster.version:
            return False
        before = len(rows.members)
        by_ordinal = {w.ordinal: w for w in rows.workers}
        for worker in change.workers:
            known = by_ordinal.get(worker.ordinal)
            assert known is None or known.stage is not WorkerStage.ENDED, "came back"
            by_ordinal[worker.ordinal] = worker
        workers = tuple(by_ordinal[n] for n in sorted(by_ordinal))
        cluster = bump_versions(rows.cluster, change.cluster)
        if rows.cluster.phase.is_terminal:
            assert cluster.phase is rows.cluster.phase, "terminal is for good"
        self.rows = replace(rows, cluster=cluster, workers=workers)
        after = len(self.rows.members)
        assert after <= max(before, cluster.replicas), "more than wanted"
        if cluster.phase.is_terminal:
            assert not self.platform.alive(), "ended while something is left"
            assert not self.rows.members
            assert cluster.stopped_ms is not None
        return True

    # The platform.

    def see(self, *, stale: bool = False) -> dict[JobRef, JobView]:
        """Return what a launcher shows of every job; perhaps of some time ago."""
        assert self.rows is not None
        views = {ref: self.platform.view(ref) for ref in self.rows.job_refs()}
        if stale:
            # What has ended has ended; everything else may be an old picture.
            views = {
                ref: view
                if view.state is JobState.ENDED
                else self.old_views.get(ref, JobView(JobState.ABSENT))
                for ref, view in views.items()
            }
        else:
            self.old_views = dict(views)
        return views

    # Servers.

    def think(self, server: Server, *, stale: bool = False) -> None:
        """Let a server read and plan; its last plan is dropped."""
        server.plan, server.actions = None, []
        if self.rows is None:
            return
        rows = server.snapshot = self.rows
        jobs = self.see(stale=stale)
        memory = server.memory
        memory.note_jobs(jobs, self.now_ms)
        memory.forget_ended(rows)
        view = jobs[rows.cluster.scheduler_ref]
        asked = wants_scheduler_proof(rows.cluster, view)
        observed = Observed(
            jobs=jobs,
            absent_since_ms=dict(memory.absent_since_ms),
            refused=dict(memory.refused),
            troubles=dict(memory.troubles),
            stopped=frozenset(memory.stopped),
            asked_ms=dict(memory.asked_ms),
            scheduler_proved=True if asked else None,
            route_proved=wants_route_proof(rows.cluster) and self.is_routable,
            serving_since_ms=server.serving_since_ms,
        )
        server.plan = plan(rows, observed, self.now_ms, retention_ms=RETENTION_MS)

    def write(self, server: Server) -> None:
        """Let a server write its plan; it may act only if that was in time."""
        if server.plan is None or server.snapshot is None:
            return
        change, actions = server.plan.change, list(server.plan.actions)
        server.plan = None
        if change is None or self.commit(server.snapshot, change):
            server.actions = actions

    def act(self, server: Server, *, fails: bool = False, loses: bool = False) -> bool:
        """Let a server carry out its next action; return whether there was one."""
        if not server.actions:
            return False
        action = server.actions.pop(0)
        try:
            self._carry_out(action, server, fails=fails, loses=loses)
        except OSError as error:
            if isinstance(action, StartJob):
                known = server.memory.troubles.get(action.ref)
                since = self.now_ms if known is None else known.since_ms
                server.memory.troubles[action.ref] = Trouble(str(error), since)
        except Lost:
            pass
        return True

    def crash(self, server: Server) -> None:
        """Let a server be killed and start again."""
        server.memory = Memory()
        server.plan, server.snapshot, server.actions = None, None, []
        server.serving_since_ms = self.now_ms

    def _carry_out(
        self, action: Action, server: Server, *, fails: bool, loses: bool
    ) -> None:
        if fails:
            raise OSError("try again")
        match action:
            case StartJob(ref):
                self._start(ref, server, loses=loses)
            case StopJob(ref):
                server.memory.asked_ms.setdefault(ref, self.now_ms)
                is_gone = self.platform.stop(ref)
                if loses:
                    raise Lost
                if is_gone:
                    server.memory.stopped.add(ref)
            case ForgetCluster():
                self.platform.forget(NAME)
            case DeleteCluster():
                self._delete(server)

    def _start(self, ref: JobRef, server: Server, *, loses: bool) -> None:
        if self.is_refused:
            server.memory.refused[ref] = "no such command"
            return
        self.platform.start(
            ref, JobState.PENDING if self.is_queueing else JobState.RUNNING
        )
        if loses:
            raise OSError("the answer was lost")
        server.memory.troubles.pop(ref, None)

    def _delete(self, server: Server) -> None:
        seen, rows = server.snapshot, self.rows
        assert seen is not None
        if rows is not None and rows.cluster.version == seen.cluster.version:
            assert rows.cluster.phase.is_terminal
            self.rows = None

    # People and the plugin.

    def scale(self, replicas: int) -> None:
        """Want a number of workers."""
        if self.rows is not None and self.rows.cluster.accepts_requests:
            self.commit(
                self.rows, request_scale(self.rows, replicas, (), now_ms=self.now_ms)[0]
            )

    def adapt(self, minimum: int, maximum: int) -> None:
        """Want a number between two."""
        if self.rows is not None and self.rows.cluster.accepts_requests:
            change, _ = request_adapt(
                self.rows,
                (minimum, maximum),
                (),
                default=10,
                adaptive_id=f"a{self.rows.cluster.version}",
                now_ms=self.now_ms,
            )
            self.commit(self.rows, change)

    def stop(self) -> None:
        """Want an end."""
        if self.rows is not None:
            change = request_stop(self.rows, StopReason.USER, "", self.now_ms)
            if change is not None:
                self.commit(self.rows, change)

    def sync(self, target: int | None = None, *, drains: bool = True) -> None:
        """Let the plugin report, drain what is too much, and end what is drained."""
        rows = self.rows
        if rows is None:
            return
        cluster = rows.cluster
        if self.platform.view(cluster.scheduler_ref).state is not JobState.RUNNING:
            return
        running = {
            ref.name
            for ref in self.platform.alive(NAME, Role.WORKER)
            if self.platform.view(ref).state is JobState.RUNNING
        }
        self.draining &= running
        report = SyncReport(
            protocol=1,
            seen=self.told,
            adaptive_id=cluster.adaptive_id,
            target=target,
            workers=tuple(running - self.draining),
            draining=tuple(self.draining),
            ports=Ports(8786, 8787),
        )
        change, beat = take_report(rows, report, self.now_ms)
        if change is not None:
            self.commit(rows, change)
        assert self.rows is not None
        self.rows = replace(self.rows, beat=beat)
        self.told = self.rows.cluster.generation
        if drains:
            self._drain(sorted(running), self.rows.cluster.replicas)

    def _drain(self, running: list[str], wanted: int) -> None:
        free = [name for name in running if name not in self.draining]
        for name in list(self.draining):
            self.platform.end(JobRef(NAME, Role.WORKER, name), 0)
        if len(free) > wanted:
            self.draining |= set(free[wanted:])

    def settle(self, rounds: int = 400) -> None:
        """Let everything go on without any fault."""
        self.is_refused = self.is_queueing = False
        self.is_routable = True
        for ref in list(self.platform.jobs):
            self.platform.run(ref)
        for _ in range(rounds):
            self.sync()
            for server in self.servers:
                self.think(server)
                self.write(server)
                while self.act(server):
                    pass
            self.now_ms += 1000
