"""The gateway's agent inside a Dask scheduler: learns what is wanted, and drains.

Given to the scheduler by path (``dask scheduler --preload .../scheduler_plugin.py``)
or by name. It stands alone: the standard library, ``distributed`` and the tornado
that comes with it, Python 3.8 and up, distributed 2022.4.0 and up, because it runs in
images that users made. That is why it is one file, longer than others here. It asks
the gateway and is never asked: no port is opened. Whatever the gateway does or does
not answer, no worker is stopped except one that is surplus to the last number that it
gave, and no scheduler is ended except by its own broken set-up.

Nothing about idleness or lifetimes is decided here; the gateway decides from reports.
"""

# ruff: noqa: ANN401 - distributed's classes are not typed for us
# ruff: noqa: ARG002 - hooks have the signatures that distributed calls

from __future__ import annotations

import asyncio
import collections
import functools
import inspect
import json
import logging
import os
import platform
import random
import re
import ssl
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import distributed
from distributed.active_memory_manager import RetireWorker
from distributed.comm.addressing import get_address_host_port
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

PROTOCOL = 1
HOLD_S = (35.0, 45.0)  # under a proxy's usual minute; spread, so that calls do not meet
CONNECT_S = 10.0
ANSWER_S = 20.0  # on top of the time that a call may be held
MAX_BACKOFF_S = 15.0
MIN_GAP_S = 1.0  # between two reports of changes: a busy scheduler flips often
TICK_S = 1.0  # closed comms and time-outs are only found by looking
COALESCE_S = 0.1
LOAD = 20  # times as long as it took, nothing is looked after: 5 % of the loop
HAND_OVER = 200  # tasks at a time: a deep queue must not hold up the loop
RETRY_S = 5.0  # until a retirement that failed is tried again
WINDOW = 3  # targets that the number may not fall below, as in the stock preload
EX_CONFIG = 78  # sysexits(3)

# States of a task with work ahead. A long-running task is "processing".
UNFINISHED = frozenset({"waiting", "processing", "queued", "no-worker"})

logger = logging.getLogger("distributed.scheduler.daskfleet")


# What can be decided without a scheduler.


class SettingsError(ValueError):
    """The environment does not say all that is needed; the text names it."""


class Settings(NamedTuple):
    """What the environment of the scheduler says.

    ``url`` has no slash at its end, the periods are in seconds.
    """

    url: str
    cluster: str
    token: str
    ca_file: str | None
    adaptive_period_s: float
    drain_timeout_s: float

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # needs Python 3.12
        return f"Settings(url={self.url!r}, cluster={self.cluster!r}, token=***)"


class Bounds(NamedTuple):
    """Adaptive bounds, inclusive; the id is made anew with each ``adapt``."""

    id: str
    minimum: int
    maximum: int


class Wanted(NamedTuple):
    """The gateway's answer: what is wanted of this cluster."""

    generation: int
    replicas: int
    adaptive: Bounds | None
    active: bool
    notice: str = ""


class WorkerView(NamedTuple):
    """What the choice of workers to drain depends on."""

    address: str
    ordinal: int
    processing: int = 0
    nbytes: int = 0
    actors: int = 0
    draining: bool = False
    retiring: bool = False


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings that ``environ`` holds.

    Raises
    ------
    SettingsError
        Naming the first variable that is missing or wrong.
    """
    url = _need(environ, "DASK_GATEWAY_API_URL").rstrip("/")
    if not re.match(r"https?://[^/\s]+", url):
        raise SettingsError("DASK_GATEWAY_API_URL must start with http:// or https://")
    cluster = _need(environ, "DASK_GATEWAY_CLUSTER_NAME")
    if not re.match(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", cluster):
        raise SettingsError("DASK_GATEWAY_CLUSTER_NAME is not a DNS label")
    return Settings(
        url,
        cluster,
        _read_token(_need(environ, "DASK_GATEWAY_API_TOKEN")),
        environ.get("DASK_GATEWAY_API_CA_FILE") or None,
        _read_seconds(environ, "DASKFLEET_ADAPTIVE_PERIOD", default=3.0, least=0.05),
        _read_seconds(environ, "DASKFLEET_DRAIN_TIMEOUT", default=600.0, least=0.0),
    )


def parse_reply(body: bytes) -> Wanted:
    """Return the gateway's answer; keys that are not known here are ignored.

    Raises
    ------
    ValueError
        If it is no such answer: a proxy's page, another protocol.
    """
    reply = json.loads(body)
    try:
        adaptive = reply.get("adaptive")
        bounds = adaptive and Bounds(
            str(adaptive["id"]), int(adaptive["minimum"]), int(adaptive["maximum"])
        )
        replicas = int(reply["replicas"])
        generation = int(reply["generation"])
        active = bool(reply.get("active", True))
        notice = str(reply.get("notice") or "")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an answer to sync: {error!r}") from None
    if replicas < 0:
        raise ValueError(f"replicas must be >= 0, got {replicas}")
    return Wanted(generation, replicas, bounds or None, active, notice)


@functools.lru_cache(maxsize=20_000)  # each report asks for each worker: 10 us
def parse_ordinal(cluster: str, name: object) -> int | None:
    """Return the ordinal of one of our workers, ``None`` for an outsider's name."""
    prefix, text = f"{cluster}-worker-", str(name)
    tail = text[len(prefix) :] if text.startswith(prefix) else ""
    return int(tail) if re.match(r"(0|[1-9][0-9]{0,8})\Z", tail) else None


def choose_victims(workers: Iterable[WorkerView], surplus: int) -> list[str]:
    """Return the addresses of ``surplus`` workers to drain, best first.

    Ones on their way out first, then idle ones, then those that are draining already,
    then by tasks, by data, and the newest. One with an actor comes last: an actor
    cannot move. So a busy worker is let off as soon as another one is idle.

    Notes
    -----
    The order of ``Scheduler.workers_to_close``, which cannot be used itself: it
    leaves out nothing that is draining and nobody's workers, and in old versions
    offers workers with long-running tasks.
    """

    def cost(worker: WorkerView) -> tuple[bool, bool, bool, bool, int, int, int]:
        return (
            not worker.retiring,
            worker.actors > 0,
            worker.processing > 0,
            not worker.draining,
            worker.processing,
            worker.nbytes,
            -worker.ordinal,
        )

    return [w.address for w in sorted(workers, key=cost)[: max(0, surplus)]]


class Adaptive:
    """Hysteresis: up at once, down only to the highest of the last targets.

    Parameters
    ----------
    bounds
        What people accept.
    replicas
        The number that is wanted now; nothing falls below it before `WINDOW`
        targets were seen.
    """

    def __init__(self, bounds: Bounds, replicas: int) -> None:
        self.bounds = bounds
        self._seen = collections.deque([replicas] * WINDOW, WINDOW)

    @property
    def target(self) -> int:
        """The number to ask for now."""
        return self._clamp(max(self._seen))

    def add(self, target: int) -> None:
        """Take the scheduler's latest target: a wanted number, not a difference."""
        self._seen.append(self._clamp(target))

    def _clamp(self, target: int) -> int:
        return max(self.bounds.minimum, min(self.bounds.maximum, target))


def backoff_s(failures: int, spread: float, *, refused: bool = False) -> float:
    """Return how long to wait after ``failures`` >= 1 calls failed in a row.

    Parameters
    ----------
    failures
        In a row.
    spread
        Random, 0 to 1.
    refused
        The gateway answers, but does not know us: asking fast helps nobody.
    """
    highest = MAX_BACKOFF_S if refused else 0.5 * 2 ** min(failures, 9)
    return min(MAX_BACKOFF_S, highest) * (0.5 + spread / 2)


def explain_hold(*, actors: int, keys: int, others: int) -> str:
    """Return why a worker that runs nothing cannot go, "" if it can.

    Parameters
    ----------
    actors, keys
        What it holds.
    others
        Workers that could take its data.
    """
    if actors:
        return "holds an actor, which cannot move"
    if keys and not others:
        return "holds the only copy of results, and no other worker can take them"
    return ""


def _need(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise SettingsError(f"{name} is not set")
    return value


def _read_token(value: str) -> str:
    token = value
    if "/" in value:
        try:
            token = Path(value).read_text(encoding="ascii").rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"DASK_GATEWAY_API_TOKEN names a file: {error}"
            ) from None
    if not re.match(r"[!-~]+\Z", token):
        raise SettingsError("DASK_GATEWAY_API_TOKEN must be printable, without spaces")
    return token


def _read_seconds(
    environ: Mapping[str, str], name: str, *, default: float, least: float
) -> float:
    text = environ.get(name) or default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not least <= seconds < float("inf"):
        raise SettingsError(f"{name} must be seconds, at least {least:g}, got {text!r}")
    return seconds


# Talking to the gateway.


class Refused(Exception):
    """The gateway answered with another status than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"answered {status}")
        self.status = status


class Gateway:
    """Makes sync calls, each over a connection of its own.

    Tornado's simple client never asks the environment for a proxy, and redirects
    are not followed, so the token goes nowhere else.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = f"{settings.url}/v1/clusters/{settings.cluster}/sync"
        self._headers = {
            "Authorization": f"token {settings.token}",
            "Content-Type": "application/json",
        }
        self._tls = _make_tls(settings)
        self._trusts = True
        self._client = SimpleAsyncHTTPClient(force_instance=True, max_clients=4)

    async def sync(self, report: Mapping[str, Any]) -> Wanted:
        """Send ``report`` and return the answer.

        Raises
        ------
        Refused, ValueError, OSError, tornado.httpclient.HTTPError
            Whatever goes wrong; all of it is to be tried again.

        Notes
        -----
        After an error of TLS the next call reads anew whom to trust.
        """
        if not self._trusts:
            # The certificate was renewed, and so was the file that vouches for it,
            # or soon will be. Errors here are one more failed call.
            self._tls = _make_tls(self._settings)
            self._trusts = True
        request = HTTPRequest(
            self._url,
            method="POST",
            headers=self._headers,
            body=json.dumps(report),
            connect_timeout=CONNECT_S,
            request_timeout=report["wait_s"] + ANSWER_S,
            follow_redirects=False,
            ssl_options=self._tls,
        )
        try:
            response = await self._client.fetch(request, raise_error=False)
        except ssl.SSLError:
            self._trusts = False
            raise
        if response.code != 200:  # noqa: PLR2004 - the one status that means yes
            raise Refused(response.code)
        return parse_reply(response.body)

    def close(self) -> None:
        """Give up the client; calls under way end when they end."""
        self._client.close()


def _make_tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.url.startswith("https://"):
        return None
    if settings.ca_file is None:
        return ssl.create_default_context()
    # The gateway's own name is often an internal one: the file is the proof.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= 0x80000  # X509_V_FLAG_PARTIAL_CHAIN, unnamed before 3.10
    try:
        context.load_verify_locations(settings.ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise SettingsError(
            f"DASK_GATEWAY_API_CA_FILE cannot be used: {settings.ca_file}: {error}"
        ) from None
    return context


# What is done to a scheduler.


class Drain:
    """A worker of ours that gets no new tasks and is to go."""

    def __init__(self, worker: Any, now: float) -> None:
        self.worker = worker
        self.name = str(worker.name)
        self.since = now
        self.status: str = worker.status.name  # what the worker itself last said
        self.held = ""
        self.failure = ""  # of the last retirement
        self.retry_at = 0.0
        self.retirement: asyncio.Task[None] | None = None


class Drainer:
    """Takes surplus workers out, never one that executes before it is done.

    Notes
    -----
    Measured with 2022.4.0 and 2026.8.0: ``retire_workers`` alone takes a busy worker
    away within 30 ms, and its task runs twice. A worker that is told to pause goes on
    0.1 s later, when its memory monitor looks. So the scheduler is made to see a
    paused worker, while the worker itself knows of nothing and goes on with what it
    has: both versions give a worker whose status is not "running" no task, steal none
    for it and put no data on it. Tasks that it has not begun are moved by Dask's own
    work stealing, which asks the worker first.
    """

    def __init__(self, scheduler: Any, cluster: str, timeout_s: float) -> None:
        self.drains: dict[str, Drain] = {}
        self._scheduler = scheduler
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._retired: set[str] = set()
        change = scheduler.handle_worker_status_change
        self._has_stimulus = "stimulus_id" in inspect.signature(change).parameters
        _wrap(scheduler.stream_handlers, "worker-status-change", self._hear_status)
        _wrap(scheduler.handlers, "register-worker", self._register)

    def find_ours(self) -> dict[str, Any]:
        """Return the connected workers of ours by address, draining ones too."""
        return {
            address: worker
            for address, worker in self._scheduler.workers.items()
            if parse_ordinal(self._cluster, worker.name) is not None
        }

    def step(self, replicas: int, now: float) -> None:
        """Move towards ``replicas`` workers; raising first cancels drains."""
        ours = self.find_ours()
        if len(ours) <= replicas and not self.drains:
            return
        victims = choose_victims(map(self._view, ours.values()), len(ours) - replicas)
        for address in self.drains.keys() - set(victims):
            self._cancel(address)
        room = HAND_OVER
        for address in victims:
            if address not in self.drains:
                self._start(ours[address], now)
            room -= self._hand_over(ours[address], room)
            self._advance(self.drains[address], now)

    def forget(self, address: str) -> None:
        """Note that a worker has left the scheduler, for whatever reason."""
        drain = self.drains.pop(address, None)
        if drain and drain.retirement:
            self._retired.add(drain.name)

    def close(self) -> None:
        """Stop what is under way; workers stay as they are."""
        for drain in self.drains.values():
            if drain.retirement:
                drain.retirement.cancel()

    def _view(self, worker: Any) -> WorkerView:
        drain = self.drains.get(worker.address)
        return WorkerView(
            worker.address,
            parse_ordinal(self._cluster, worker.name) or 0,
            len(worker.processing),
            worker.nbytes,
            len(worker.actors),
            drain is not None,
            drain is not None and drain.retirement is not None,
        )

    def _start(self, worker: Any, now: float) -> None:
        self.drains[worker.address] = Drain(worker, now)
        logger.info("draining worker %s", worker.name)
        self._set_status(worker.address, "paused")

    def _hand_over(self, worker: Any, room: int) -> int:
        """Have up to ``room`` tasks that have not begun moved to other workers."""
        stealing = self._scheduler.extensions.get("stealing")
        if stealing is None or len(worker.processing) <= worker.nthreads:
            return 0
        takers = list(self._scheduler.running)
        tasks = [task for task in worker.processing if not _is_tied(task)]
        tasks = tasks[:room] if takers else []
        for index, task in enumerate(tasks):
            stealing.move_task_request(task, worker, takers[index % len(takers)])
        return len(tasks)

    def _advance(self, drain: Drain, now: float) -> None:
        worker = drain.worker
        stream = self._scheduler.stream_comms.get(worker.address)
        if drain.retirement or now < drain.retry_at or stream is None:
            return
        if stream.comm is None:
            return  # it is just registering; removed now, it would hang for ever
        if worker.processing and now - drain.since < self._timeout_s:
            drain.held = drain.failure = ""
            return
        hold = explain_hold(
            actors=len(worker.actors),
            keys=len(worker.has_what),
            others=len(self._scheduler.running),
        )
        drain.held = hold or drain.failure
        if not hold:
            drain.retirement = _spawn(self._retire(drain), f"retire {drain.name}")

    async def _retire(self, drain: Drain) -> None:
        reason = "its data could not be moved to another worker"
        address = drain.worker.address
        try:
            await self._scheduler.retire_workers(
                workers=[address], close_workers=True, remove=True
            )
        except Exception as error:
            logger.exception("retiring worker %s failed", drain.name)
            reason = f"retiring it failed: {error!r}"
        if self.drains.get(address) is not drain:
            logger.info("retired worker %s", drain.name)
            return
        drain.retirement = None
        drain.held = drain.failure = reason
        drain.retry_at = time.monotonic() + RETRY_S
        self._resume(drain)

    def _cancel(self, address: str) -> None:
        drain = self.drains.pop(address)
        logger.info("worker %s is wanted again", drain.name)
        if drain.retirement:
            drain.retirement.cancel()
            _end_moving(self._scheduler, address)
            self._resume(drain)
            drain.status = "running"
        self._set_status(address, drain.status)

    def _resume(self, drain: Drain) -> None:
        """Tell a worker to go on that a retirement has told to end, or to pause."""
        comm = self._scheduler.stream_comms.get(drain.worker.address)
        if comm is not None:
            message = {"op": "worker-status-change", "status": "running"}
            comm.send({**message, **self._stimulus()})

    def _set_status(self, address: str, status: str) -> None:
        self._scheduler.handle_worker_status_change(
            status=status, worker=address, **self._stimulus()
        )

    def _stimulus(self) -> dict[str, str]:
        return {"stimulus_id": f"daskfleet-{time.time()}"} if self._has_stimulus else {}

    def _hear_status(
        self, original: Callable[..., None], *, status: str, worker: str, **more: Any
    ) -> None:
        drain = self.drains.get(worker)
        if drain is not None:
            drain.status = status
            if status == "running":
                status = "paused" if drain.retirement is None else "closing_gracefully"
        original(status=status, worker=worker, **more)

    async def _register(
        self, original: Callable[..., Awaitable[Any]], comm: Any, **message: Any
    ) -> Any:
        name = str(message.get("name"))
        if name not in self._retired:
            return await original(comm, **message)
        logger.warning("refused worker %s: it was retired", name)
        text = f"worker {name} was retired and cannot come back"
        await comm.write({"status": "error", "message": text, "time": time.time()})
        return None


def _is_tied(task: Any) -> bool:
    ties = (
        task.worker_restrictions,
        task.host_restrictions,
        task.resource_restrictions,
    )
    return task.actor or any(ties)


def _end_moving(scheduler: Any, address: str) -> None:
    # A cancelled retirement leaves its policy with the memory manager.
    manager = scheduler.extensions.get("amm")
    for policy in list(manager.policies) if manager else ():
        if isinstance(policy, RetireWorker) and policy.address == address:
            manager.policies.discard(policy)


def _wrap(handlers: dict[str, Any], op: str, around: Callable[..., Any]) -> None:
    """Put ``around`` before a handler; Dask asks the result for name and signature."""
    original = handlers[op]
    handlers[op] = functools.update_wrapper(
        functools.partial(around, original), original
    )


def _spawn(coroutine: Any, name: str) -> asyncio.Task[None]:
    # TaskGroup and gateway.aio are not there in users' images; owners cancel these.
    return asyncio.get_running_loop().create_task(coroutine, name=name)


# The plugin.


class Agent(SchedulerPlugin):  # type: ignore[misc]  # distributed is not typed for us
    """Reports what happens in a scheduler, and does what the gateway wants.

    Three loops: one call is always held open at the gateway; one reports changes as
    they come, so that at most two calls are under way; one looks after drains and
    the adaptive target. Each outlives any error.
    """

    name = "daskfleet"

    def __init__(self, scheduler: Any, settings: Settings) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._gateway = Gateway(settings)
        self._drainer = Drainer(scheduler, settings.cluster, settings.drain_timeout_s)
        self._wanted: Wanted | None = None  # until the gateway has said
        self._adaptive: Adaptive | None = None
        self._adapt_at = 0.0
        self._watchers: list[Any] = []
        self._unfinished = 0
        self._active_at = self._client_at = time.monotonic()
        self._failures = 0
        self._sent: Any = None
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        _wrap(scheduler.handlers, "subscribe_worker_status", self._subscribe)

    def launch(self) -> None:
        """Start the loops."""
        for name in ("hold", "tell", "tend"):
            loop = _forever(name, getattr(self, f"_{name}"))
            self._tasks.append(_spawn(loop, f"daskfleet {name}"))

    def shut(self) -> None:
        """End the loops; nothing more is sent."""
        for task in self._tasks:
            task.cancel()
        self._drainer.close()
        self._gateway.close()

    # Hooks of the scheduler: they only note and wake, since they hold up its loop.

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Look at the workers soon."""
        self._wake.set()

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Remember a retired one, and look at the others soon."""
        self._drainer.forget(worker)
        self._wake.set()

    def add_client(self, scheduler: Any, client: str) -> None:
        """Count it as activity."""
        self._active_at = time.monotonic()
        self._wake.set()

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Count clients soon."""
        self._wake.set()

    def transition(
        self, key: object, start: str, finish: str, *args: Any, **kwargs: Any
    ) -> None:
        """Count tasks with work ahead; called for each step of each task."""
        self._active_at = time.monotonic()
        before = self._unfinished
        self._unfinished += (finish in UNFINISHED) - (start in UNFINISHED)
        if self._drainer.drains or (before > 0) != (self._unfinished > 0):
            self._wake.set()

    def restart(self, scheduler: Any) -> None:
        """Count tasks anew; a restart drops them without a transition."""
        self._unfinished = sum(t.state in UNFINISHED for t in scheduler.tasks.values())
        self._wake.set()

    def _subscribe(
        self, original: Callable[..., Any], comm: Any, **message: Any
    ) -> Any:
        # An open GatewayCluster is only seen by this comm: its plugin in the scheduler
        # is replaced by the next one's, and stays when its comm has closed.
        self._watchers.append(comm)
        self._wake.set()
        return original(comm, **message)

    # The loops.

    async def _hold(self) -> None:
        before, started = self._wanted, time.monotonic()
        wait_s = random.uniform(*HOLD_S) if before else 0.0  # noqa: S311 - jitter
        if await self._call(wait_s) and before == self._wanted:
            # Whoever answers at once though nothing is new must not be asked at once.
            took = time.monotonic() - started
            await asyncio.sleep(max(0.0, MIN_GAP_S - took))

    async def _tell(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        if await self._call(0.0):
            await asyncio.sleep(MIN_GAP_S)
        else:
            self._changed.set()

    async def _tend(self) -> None:
        timer = asyncio.get_running_loop().call_later(
            min(TICK_S, self._settings.adaptive_period_s), self._wake.set
        )
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()
        now = time.monotonic()
        if self._wanted and self._wanted.active:
            self._adapt(self._wanted, now)
            self._drainer.step(self._wanted.replicas, now)
        if self._fingerprint(self._report(0.0)) != self._sent:
            self._changed.set()
        await asyncio.sleep(max(COALESCE_S, LOAD * (time.monotonic() - now)))

    async def _call(self, wait_s: float) -> bool:
        """Make one call; after one that failed, wait until the next may be made."""
        report = self._report(wait_s)
        self._sent = self._fingerprint(report)
        try:
            wanted = await self._gateway.sync(report)
        except Exception as error:  # noqa: BLE001 - an outage may look like anything
            self._failures += 1
            if self._failures == 1:
                logger.warning("no answer from the gateway, going on: %r", error)
            refused = isinstance(error, Refused) and error.status in (401, 403, 404)
            spread = random.random()  # noqa: S311 - jitter
            await asyncio.sleep(backoff_s(self._failures, spread, refused=refused))
            return False
        if self._failures:
            logger.info("the gateway answers again")
        self._failures = 0
        self._learn(wanted)
        return True

    def _learn(self, wanted: Wanted) -> None:
        known = self._wanted
        if known is None or (wanted != known and wanted.generation >= known.generation):
            logger.info("the gateway wants %s", wanted)
            self._wanted = wanted
            if wanted.notice and (known is None or known.notice != wanted.notice):
                self._announce(wanted.notice)
            if self._adaptive and self._adaptive.bounds != wanted.adaptive:
                self._adaptive = None  # no call may say a target under an old id
            self._wake.set()

    def _announce(self, notice: str) -> None:
        logger.warning("%s", notice)
        # Newer clients show it as a warning to whoever works with them now.
        self._scheduler.log_event("warn", notice)

    # Adaptive mode.

    def _adapt(self, wanted: Wanted, now: float) -> None:
        if wanted.adaptive is None:
            return
        if self._adaptive is None:
            self._adaptive = Adaptive(wanted.adaptive, wanted.replicas)
            self._adapt_at = now
        if now >= self._adapt_at:
            self._adapt_at = now + self._settings.adaptive_period_s
            try:
                self._adaptive.add(self._ask_target())
            except Exception:
                logger.exception("no adaptive target this time")

    def _ask_target(self) -> int:
        scheduler = self._scheduler
        target = int(scheduler.adaptive_target())
        # Old versions count nothing that waits as long as a worker is connected,
        # though it may be paused or draining.
        if self._unfinished and not scheduler.running:
            target = max(1, target)
        return target

    # Reports.

    def _report(self, wait_s: float) -> dict[str, Any]:
        now = time.monotonic()
        drains = self._drainer.drains
        ours = self._drainer.find_ours()
        unfinished = self._count_unfinished()
        if unfinished:
            self._active_at = now
        clients = self._count_clients()
        if clients:
            self._client_at = now
        return {
            "protocol": PROTOCOL,
            "seen": self._wanted.generation if self._wanted else 0,
            "wait_s": round(wait_s, 1),
            "adaptive_id": self._adaptive and self._adaptive.bounds.id,
            "target": self._adaptive and self._adaptive.target,
            "workers": [str(w.name) for a, w in ours.items() if a not in drains],
            "outsiders": len(self._scheduler.workers) - len(ours),
            "draining": [drain.name for drain in drains.values()],
            "held": {d.name: d.held for d in drains.values() if d.held},
            "clients": clients,
            "no_client_s": round(now - self._client_at, 1),
            "unfinished": unfinished,
            "idle_s": round(now - self._active_at, 1),
            "ports": self._find_ports(),
            "versions": {
                "distributed": distributed.__version__,
                "python": platform.python_version(),
            },
        }

    def _count_unfinished(self) -> int:
        scheduler = self._scheduler
        if not scheduler.tasks:
            self._unfinished = 0
        actors = sum(len(worker.actors) for worker in scheduler.workers.values())
        # Newer versions unpack big graphs in a thread, before there is a task.
        graphs = getattr(scheduler, "_active_graph_updates", 0)
        return max(0, self._unfinished) + actors + graphs

    def _count_clients(self) -> int:
        self._watchers = [comm for comm in self._watchers if not comm.closed()]
        clients = self._scheduler.clients
        return len(clients) - ("fire-and-forget" in clients) + len(self._watchers)

    def _find_ports(self) -> dict[str, int | None]:
        dashboard = self._scheduler.services.get("dashboard")
        return {
            "scheduler": get_address_host_port(self._scheduler.address)[1],
            "dashboard": getattr(dashboard, "port", None),
        }

    @staticmethod
    def _fingerprint(report: Mapping[str, Any]) -> Any:
        """Return what must not differ for long from what the gateway was told."""
        facts = ("adaptive_id", "target", "workers", "outsiders", "draining", "held")
        use = (report["clients"] > 0, report["unfinished"] > 0, report["ports"])
        return [report[fact] for fact in facts], use


async def _forever(name: str, step: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await step()
        except Exception:
            logger.exception("error in loop %s, going on", name)
            await asyncio.sleep(TICK_S)


_agents: dict[int, Agent] = {}


async def dask_setup(scheduler: Any) -> None:
    """Start the agent; Dask calls this once the scheduler listens.

    Newer versions only log what a preload raises, and the cluster would run without
    us, so any error ends the process.
    """
    try:
        agent = Agent(scheduler, read_settings(os.environ))
        # Nothing that the scheduler starts needs it; `dask scheduler --jupyter` does.
        os.environ.pop("DASK_GATEWAY_API_TOKEN", None)
        agent.launch()
        scheduler.add_plugin(agent)
        _agents[id(scheduler)] = agent
    except SettingsError as error:
        _end_process(str(error))
    except BaseException as error:  # noqa: BLE001 - whatever it is, see above
        traceback.print_exc()
        _end_process(repr(error))


async def dask_teardown(scheduler: Any) -> None:
    """Stop the agent; Dask calls this when the scheduler closes."""
    agent = _agents.pop(id(scheduler), None)
    if agent is not None:
        agent.shut()


def _end_process(reason: str) -> NoReturn:
    print(f"daskfleet: the scheduler cannot start: {reason}", file=sys.stderr)  # noqa: T201 - logging may be off
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EX_CONFIG)
