"""A controller process as a whole: its parts, its signals, its end."""

import asyncio
import contextlib
import os
import signal
import uuid
from pathlib import Path
from typing import Final

import structlog

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import load_connection
from backends.kubernetes.api.lease import Lease
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.children import Children
from backends.kubernetes.controller.executor import Executor
from backends.kubernetes.controller.limiter import Limiter
from backends.kubernetes.controller.memory import Memories
from backends.kubernetes.controller.metrics import Metrics
from backends.kubernetes.controller.observer import Observer
from backends.kubernetes.controller.orphans import Orphans
from backends.kubernetes.controller.owners import Owners
from backends.kubernetes.controller.proof import RouteProver
from backends.kubernetes.controller.reconciler import Reconciler
from backends.kubernetes.controller.relay import build_relay
from backends.kubernetes.controller.rounds import Rounds
from backends.kubernetes.controller.server import Vitals, build_probes, serving
from backends.kubernetes.controller.settings import ControllerSettings
from backends.kubernetes.controller.statuses import Statuses
from backends.kubernetes.controller.telling import EventTeller
from backends.kubernetes.controller.workers import WorkerPods
from backends.kubernetes.controller.writes import Writes
from gateway.aio.queue import KeyedQueue
from gateway.aio.tasks import Supervisor

log = structlog.get_logger(__name__)

_FLUSH_S: Final = 2.0


async def run_controller(
    settings: ControllerSettings, *, kubeconfig: str = "", context: str = ""
) -> None:
    """Run until SIGTERM or SIGINT.

    Raises
    ------
    ConfigError
        If there is no API server to talk to, or a port is taken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = Metrics()
    connection = await load_connection(kubeconfig, context)
    client = KubeClient(connection, meter=metrics)
    try:
        controller = Controller(client, settings, metrics)
        await controller.run(stop)
    finally:
        await client.close()


class Controller:
    """The parts of one process, over one client."""

    def __init__(
        self, client: KubeClient, settings: ControllerSettings, metrics: Metrics
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock = client.clock
        self._queue: KeyedQueue[str] = KeyedQueue()
        self._metrics = metrics
        self._caches = Caches(
            client,
            namespaces=settings.namespaces,
            selector=settings.namespace_selector,
            instance=settings.objects.instance,
            wake=self._queue.wake,
            clock=clock,
        )
        self._teller = EventTeller(client)
        self._lease = Lease(
            client,
            settings.lease_name,
            # Never another's, not even that of the same pod's former process.
            f"{os.uname().nodename}_{uuid.uuid4().hex[:12]}",
            clock=clock,
            times=settings.lease_times,
        )
        self._memories = Memories()
        self._rounds = Rounds(self._queue, settings.pace, metrics, clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead when it is our turn, and serve; until ``stop``."""
        settings = self._settings
        probes = build_probes(
            Vitals(
                caches=self._caches,
                metrics=self._metrics,
                queued=lambda: len(self._queue),
                longest_round_s=lambda: self._rounds.longest_s,
                is_leading=lambda: self._lease.is_held,
            )
        )
        relay = build_relay(self._client, self._caches, self._read_relay_token)
        async with (
            serving(probes, settings.address, "KubeController.address"),
            serving(relay, self._relay_address(), "KubeController.relay_address"),
            Supervisor() as informers,
        ):
            self._caches.start(informers)
            log.info("controller started", identity=self._lease.identity)
            async with Supervisor() as tasks:
                tasks.start("events", self._teller.run)
                tasks.start("resync", self._resync)
                tasks.start("lead", self._lead_for_ever)
                await stop.wait()
                log.info("controller stopping")
            # Nothing writes any more: another may begin.
            await self._lease.release()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_FLUSH_S):
                    await self._teller.flush()
        self._queue.close()
        log.info("controller stopped")

    async def _lead_for_ever(self) -> None:
        await self._caches.wait_synced()
        while True:
            await self._lease.lead(self._lead)

    async def _lead(self) -> None:
        """Look at everything, and then at what changes; with an empty memory."""
        await self._caches.wait_synced()
        reconciler = self._build_reconciler()
        for name in self._caches.list_names():
            self._queue.wake(name)
        await self._rounds.run(reconciler.reconcile)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.pace.resync_s)
            if self._lease.is_held:
                self._memories.forget_routes()
                for name in self._caches.list_names():
                    self._queue.wake(name)

    def _build_reconciler(self) -> Reconciler:
        settings, client, clock = self._settings, self._client, self._clock
        caches = self._caches
        memories = self._memories = Memories()
        writes = Writes(client, self._lease, Limiter(settings.pace.rate_limit))
        owners = Owners(client, settings.anchor_owner, clock)
        instance = settings.objects.instance
        return Reconciler(
            observer=Observer(caches, memories, settings.objects, clock),
            executor=Executor(
                client,
                writes,
                Children(client, writes, caches, owners, clock, shared=memories.shared),
                WorkerPods(client, writes, caches, clock),
                clock,
            ),
            statuses=Statuses(writes, caches),
            orphans=Orphans(client, writes, caches, memories, clock),
            prover=RouteProver(
                client, settings.proof_address, instance=instance, clock=clock
            ),
            teller=self._teller,
            lease=self._lease,
            clock=clock,
        )

    def _relay_address(self) -> str:
        settings = self._settings
        return settings.relay_address if settings.relay_token_file else ""

    def _read_relay_token(self) -> str:
        try:
            return Path(self._settings.relay_token_file).read_text().strip()
        except OSError as error:
            log.warning("relay has no token", error=error.strerror)
            return ""
