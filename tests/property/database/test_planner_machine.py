"""The planner under everything that can go wrong between a row and a process."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from backends.database.launcher import JobRef, JobState, Role
from backends.database.records import WorkerStage
from gateway.domain.cluster import ClusterPhase
from tests.support.database_world import NAME, World
from tests.support.machines import machine_settings

which = st.integers(0, 1)
faults = st.sampled_from(["none", "none", "none", "fails", "loses"])


class PlannerMachine(RuleBasedStateMachine):
    """Two servers, one cluster: steps in any order, any of them lost."""

    @initialize(
        patience=st.integers(1, 2),
        limit=st.integers(1, 3),
        replicas=st.integers(0, 6),
        head_start=st.sampled_from([0, 1, 2, 4, 8, 8, 8]),
    )
    def begin(self, patience: int, limit: int, replicas: int, head_start: int) -> None:
        self.world = World(
            scheduler_start_timeout_s=30,
            worker_start_timeout_s=20,
            worker_start_failure_limit=limit,
            idle_timeout_s=0,
            no_client_timeout_s=0,
        )
        self.world.platform.patience = patience
        self.world.scale(replicas)
        self.world.settle(rounds=head_start)

    @rule(who=which, stale=st.booleans())
    def think(self, who: int, stale: bool) -> None:
        self.world.think(self.world.servers[who], stale=stale)

    @rule(who=which)
    def write(self, who: int) -> None:
        self.world.write(self.world.servers[who])

    @rule(who=which, fault=faults)
    def act(self, who: int, fault: str) -> None:
        self.world.act(
            self.world.servers[who], fails=fault == "fails", loses=fault == "loses"
        )

    @rule(who=which, times=st.integers(1, 4), syncs=st.booleans())
    def go_round(self, who: int, times: int, syncs: bool) -> None:
        server = self.world.servers[who]
        for _ in range(times):
            if syncs:
                self.world.sync()
            self.world.think(server)
            self.world.write(server)
            while self.world.act(server):
                pass

    @rule(who=which)
    def crash(self, who: int) -> None:
        self.world.crash(self.world.servers[who])

    @rule(drains=st.booleans(), aim=st.none() | st.integers(0, 8))
    def sync(self, drains: bool, aim: int | None) -> None:
        self.world.sync(aim, drains=drains)

    @rule(replicas=st.integers(0, 6))
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @rule(minimum=st.integers(0, 2), more=st.integers(0, 4))
    def adapt(self, minimum: int, more: int) -> None:
        self.world.adapt(minimum, minimum + more)

    @rule(luck=st.integers(0, 3))
    def stop(self, luck: int) -> None:
        if luck == 0:
            self.world.stop()

    @rule(pick=st.integers(0, 20), code=st.sampled_from([0, 1, -9, None]))
    def worker_ends(self, pick: int, code: int | None) -> None:
        alive = sorted(
            self.world.platform.alive(NAME, Role.WORKER), key=lambda r: r.name
        )
        if alive:
            self.world.platform.end(alive[pick % len(alive)], code)

    @rule(code=st.sampled_from([0, 3]), luck=st.integers(0, 3))
    def scheduler_ends(self, code: int, luck: int) -> None:
        ref = JobRef(NAME, Role.SCHEDULER, "scheduler")
        if luck == 0 and ref in self.world.platform.jobs:
            self.world.platform.end(ref, code, "Traceback", "OSError")

    @rule(is_queueing=st.booleans(), is_routable=st.booleans())
    def weather(self, is_queueing: bool, is_routable: bool) -> None:
        self.world.is_queueing = is_queueing
        self.world.is_routable = is_routable

    @rule()
    def queue_moves(self) -> None:
        for ref in list(self.world.platform.jobs):
            self.world.platform.run(ref)

    @rule(is_refused=st.sampled_from([False, False, False, True]))
    def change_command(self, is_refused: bool) -> None:
        self.world.is_refused = is_refused

    @rule(ms=st.sampled_from([50, 1_000, 11_000, 25_000]))
    def wait(self, ms: int) -> None:
        self.world.now_ms += ms

    @invariant()
    def every_job_has_its_row(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        alive = world.platform.alive()
        if world.rows is None:
            assert not alive
            return
        assert alive <= set(world.rows.job_refs())
        if world.rows.cluster.phase.is_terminal:
            assert not alive
        assert all(job.starts == 1 for job in world.platform.jobs.values())

    @invariant()
    def what_is_reserved_covers_what_there_is(self) -> None:
        if hasattr(self, "world") and self.world.rows is not None:
            rows = self.world.rows
            if rows.cluster.active:
                held = max(rows.cluster.most_workers, len(rows.members))
                assert rows.cluster.reserved_workers >= held

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.settle()
        rows = world.rows
        assert rows is not None
        cluster = rows.cluster
        assert cluster.phase is not ClusterPhase.PENDING
        if cluster.phase.is_terminal:
            assert not world.platform.alive()
            assert cluster.is_failing == (cluster.phase is ClusterPhase.FAILED)
            assert cluster.reason
        else:
            workers = world.platform.alive(NAME, Role.WORKER)
            assert len(workers) == cluster.replicas
            assert {w.stage for w in rows.members} <= {WorkerStage.CONNECTED}
            view = world.platform.view(cluster.scheduler_ref)
            assert view.state is JobState.RUNNING
        before = world.rows
        world.settle(rounds=3)
        assert world.rows is not None
        assert world.rows.cluster == before.cluster, "settled, and still written"


# At night one machine is a test of many minutes.
pytestmark = pytest.mark.timeout(7200)

TestPlanner = PlannerMachine.TestCase
TestPlanner.settings = machine_settings(40)
