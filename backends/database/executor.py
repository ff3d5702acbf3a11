"""Carry out the actions of a plan. Decides nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, assert_never

import structlog

from backends.database.actions import (
    Action,
    DeleteCluster,
    ForgetCluster,
    StartJob,
    StopJob,
)
from backends.database.keyring import Keyring
from backends.database.launcher import JobRef, JobSpec, Launcher, Role, StartFailed
from backends.database.leases import Lease
from backends.database.observe import Memory
from backends.database.observed import Trouble
from backends.database.records import Snapshot
from backends.database.store import Store
from gateway.domain.credentials import Credentials
from gateway.domain.errors import BackendError, InvariantError
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# A platform's command may hang; then it is tried again.
_CALL_S: Final = 60.0


class LeaseLost(BackendError):
    """Another server may act for the cluster by now."""

    retryable = True


class Executor:
    """Starts and stops jobs, a few of each cluster at a time.

    Parameters
    ----------
    parallelism
        Highest number of calls to the launcher at once, over all clusters.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        store: Store,
        keyring: Keyring,
        lease: Lease,
        clock: Clock,
        parallelism: int,
    ) -> None:
        self._launcher = launcher
        self._store = store
        self._keyring = keyring
        self._lease = lease
        self._clock = clock
        self._parallelism = parallelism
        self._slots = asyncio.Semaphore(parallelism)

    async def execute(
        self, snapshot: Snapshot, actions: Sequence[Action], memory: Memory
    ) -> list[Exception]:
        """Carry out ``actions``; each is tried, whatever becomes of the others.

        Outcomes that the next plan must know are left in ``memory``.

        Returns
        -------
        list of Exception
            What failed and is to be tried again.
        """
        jobs = [a for a in actions if isinstance(a, StartJob | StopJob)]
        rest = [a for a in actions if not isinstance(a, StartJob | StopJob)]
        starts = any(isinstance(action, StartJob) for action in jobs)
        credentials = await self._open(snapshot) if starts else None
        calls: list[Callable[[], Awaitable[None]]] = []
        for action in jobs:
            if isinstance(action, StopJob):
                calls.append(partial(self._stop, action.ref, memory))
            elif credentials is not None:
                spec = _build_job(snapshot, action.ref, credentials)
                calls.append(partial(self._start, spec, memory))
        failures: list[Exception] = []
        waiting = iter(calls)
        # A few at a time: a thousand tasks at once would hold the event loop.
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._parallelism, len(calls))):
                group.create_task(_make_calls(waiting, failures))
        if not failures:
            for last in rest:
                await self._finish(last, snapshot)
        return failures

    async def _open(self, snapshot: Snapshot) -> Credentials:
        return await self._keyring.open_all(snapshot.cluster)

    async def _start(self, spec: JobSpec, memory: Memory) -> None:
        ref = spec.ref
        async with self._slots:
            if not self._lease.is_valid:
                raise LeaseLost(f"lease lost before {ref.name} was started")
            try:
                async with asyncio.timeout(_CALL_S):
                    await self._launcher.start(spec)
            except StartFailed as error:
                memory.refused[ref] = str(error)
                log.warning("job refused", job=ref.name, error=str(error))
                return
            except Exception as error:
                self._note_trouble(ref, error, memory)
                raise
        memory.troubles.pop(ref, None)
        log.info("job started", job=ref.name)

    async def _stop(self, ref: JobRef, memory: Memory) -> None:
        memory.asked_ms.setdefault(ref, self._now_ms())
        async with self._slots, asyncio.timeout(_CALL_S):
            is_gone = await self._launcher.stop(ref)
        log.debug("job asked to end", job=ref.name, is_gone=is_gone)
        if is_gone:
            memory.stopped.add(ref)
            log.debug("job stopped", job=ref.name)

    async def _finish(self, action: Action, snapshot: Snapshot) -> None:
        match action:
            case ForgetCluster():
                async with asyncio.timeout(_CALL_S):
                    await self._launcher.forget(snapshot.cluster.name)
            case DeleteCluster():
                await self._store.delete(snapshot)
                log.info("cluster deleted")
            case StartJob() | StopJob():
                raise InvariantError("jobs come first")
            case _:
                assert_never(action)

    def _note_trouble(self, ref: JobRef, error: Exception, memory: Memory) -> None:
        known = memory.troubles.get(ref)
        text = str(error) or type(error).__name__
        since_ms = self._now_ms() if known is None else known.since_ms
        memory.troubles[ref] = Trouble(text, since_ms)

    def _now_ms(self) -> int:
        return round(self._clock.now().timestamp() * 1000)


async def _make_calls(
    waiting: Iterator[Callable[[], Awaitable[None]]], failures: list[Exception]
) -> None:
    for call in waiting:
        try:
            await call()
        except Exception as error:  # noqa: BLE001 - the others are made all the same; the caller raises it
            failures.append(error)


def _build_job(snapshot: Snapshot, ref: JobRef, credentials: Credentials) -> JobSpec:
    cluster = snapshot.cluster
    address = None
    if ref.role is Role.WORKER:
        if cluster.route_host is None or cluster.scheduler_port is None:
            raise InvariantError(f"{ref.name} is to start before its scheduler runs")
        address = f"tls://{_bracket(cluster.route_host)}:{cluster.scheduler_port}"
    return JobSpec(
        ref=ref,
        owner=cluster.owner,
        config=snapshot.spec.config,
        credentials=credentials,
        api_url=snapshot.spec.api_url,
        scheduler_address=address,
    )


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
