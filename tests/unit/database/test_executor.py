"""What an executor does about calls that fail; that it acts is seen elsewhere."""

from dataclasses import dataclass, field

import pytest

from backends.database.actions import DeleteCluster, ForgetCluster, StartJob, StopJob
from backends.database.executor import Executor, LeaseLost
from backends.database.observe import Memory
from backends.database.records import Snapshot, WorkerStage
from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import InvariantError
from tests.support.builders import FakeClock
from tests.support.database_rows import SCHEDULER, rows, worker_ref
from tests.support.fake_launcher import FakeLauncher

PAIR = KeyPair("certificate", "key")
CREDENTIALS = Credentials("ca", "ca key", PAIR, PAIR, PAIR, "token")


class FakeKeyring:
    async def open_all(self, _cluster: object) -> Credentials:
        return CREDENTIALS


@dataclass
class FakeLease:
    is_valid: bool = True


@dataclass
class FakeStore:
    deleted: list[str] = field(default_factory=list)

    async def delete(self, seen: Snapshot) -> None:
        self.deleted.append(seen.cluster.name)


class Setting:
    def __init__(self) -> None:
        self.launcher = FakeLauncher()
        self.lease = FakeLease()
        self.store = FakeStore()
        self.clock = FakeClock()
        self.memory = Memory()
        self.executor = Executor(
            launcher=self.launcher,
            store=self.store,
            keyring=FakeKeyring(),
            lease=self.lease,
            clock=self.clock,
            parallelism=2,
        )

    async def execute(self, *actions, snapshot=None) -> list[Exception]:
        snapshot = snapshot or rows().running(1).worker(WorkerStage.WANTED).build()
        return await self.executor.execute(snapshot, actions, self.memory)


@pytest.fixture
def setting() -> Setting:
    return Setting()


async def test_one_failure_does_not_keep_the_others(setting):
    def fail(_call: str, ref: object) -> None:
        if ref == SCHEDULER:
            raise OSError("busy")

    setting.launcher.fail = fail

    (error,) = await setting.execute(StopJob(SCHEDULER), StopJob(worker_ref(0)))

    assert isinstance(error, OSError)
    assert setting.memory.stopped == {worker_ref(0)}


async def test_nothing_is_started_once_the_lease_is_over(setting):
    setting.lease.is_valid = False

    (error,) = await setting.execute(StartJob(worker_ref(0)))

    assert isinstance(error, LeaseLost)
    assert error.retryable
    assert setting.launcher.platform.jobs == {}


async def test_a_start_that_keeps_failing_is_remembered_from_its_first_time(setting):
    def fail(_call: str, _ref: object) -> None:
        raise OSError

    setting.launcher.fail = fail
    await setting.execute(StartJob(worker_ref(0)))
    first = setting.memory.troubles[worker_ref(0)]
    setting.clock.advance(10)
    await setting.execute(StartJob(worker_ref(0)))

    assert setting.memory.troubles[worker_ref(0)].since_ms == first.since_ms
    assert first.text == "OSError"

    setting.launcher.fail = lambda *_: None
    await setting.execute(StartJob(worker_ref(0)))
    assert setting.memory.troubles == {}


async def test_traces_go_before_rows_and_rows_stay_if_they_do_not(setting):
    gone = rows().ended().build()
    await setting.execute(ForgetCluster(), DeleteCluster(), snapshot=gone)
    assert setting.launcher.platform.forgotten == ["c1"]
    assert setting.store.deleted == ["c1"]

    async def forget(_cluster: str) -> None:
        raise OSError("busy")

    setting.launcher.forget = forget
    with pytest.raises(OSError, match="busy"):
        await setting.execute(ForgetCluster(), DeleteCluster(), snapshot=gone)
    assert setting.store.deleted == ["c1"]


async def test_a_worker_is_never_started_without_its_schedulers_address(setting):
    pending = rows().worker(WorkerStage.WANTED).build()

    with pytest.raises(InvariantError):
        await setting.execute(StartJob(worker_ref(0)), snapshot=pending)


async def test_an_address_of_version_6_is_written_in_brackets(setting):
    made = rows().running(1).worker(WorkerStage.WANTED).cluster(route_host="fd00::7")

    await setting.execute(StartJob(worker_ref(0)), snapshot=made.build())

    spec = setting.launcher.specs[worker_ref(0)]
    assert spec.scheduler_address == "tls://[fd00::7]:8786"
