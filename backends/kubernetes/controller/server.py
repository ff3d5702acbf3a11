"""Probes and metrics of a controller, for the kubelet and for Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from backends.kubernetes.api.informer import STALE_S
from backends.kubernetes.controller.caches import Caches
from backends.kubernetes.controller.metrics import Metrics
from gateway.config.traits import parse_address
from gateway.domain.errors import ConfigError

# Longer than any call may take, so what runs for so long hangs.
STUCK_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the probes look at.

    Parameters
    ----------
    queued
        Clusters to be looked at.
    longest_round_s
        How long the longest look of now has taken.
    is_leading
        Whether this process leads.
    """

    caches: Caches
    metrics: Metrics
    queued: Callable[[], int]
    longest_round_s: Callable[[], float]
    is_leading: Callable[[], bool]


def build_probes(vitals: Vitals) -> web.Application:
    """Return the routes ``/healthz``, ``/readyz`` and ``/metrics``."""
    app = web.Application()

    async def answer_health(_: web.Request) -> web.Response:
        problems = find_problems(vitals)
        return web.Response(
            text="\n".join(problems) or "ok", status=503 if problems else 200
        )

    async def answer_ready(_: web.Request) -> web.Response:
        waiting = [i for i in vitals.caches if not (i.is_synced or i.denied)]
        text = "\n".join(f"no list yet: {i.scope.resource.plural}" for i in waiting)
        return web.Response(text=text or "ok", status=503 if waiting else 200)

    async def answer_metrics(_: web.Request) -> web.Response:
        text = vitals.metrics.write(
            vitals.caches, queued=vitals.queued(), is_leading=vitals.is_leading()
        )
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    app.router.add_get("/healthz", answer_health)
    app.router.add_get("/readyz", answer_ready)
    app.router.add_get("/metrics", answer_metrics)
    return app


def find_problems(vitals: Vitals) -> list[str]:
    """Return why this process should be started anew, if so."""
    problems = [
        f"no word of {informer.scope.resource.plural} for {informer.age_s:.0f} s"
        for informer in vitals.caches
        if informer.age_s > STALE_S
    ]
    longest_s = vitals.longest_round_s()
    if longest_s > STUCK_S:
        problems.append(f"a cluster is being looked at for {longest_s:.0f} s")
    return problems


@asynccontextmanager
async def serving(
    app: web.Application, address: str, setting: str
) -> AsyncIterator[None]:
    """Serve ``app`` on ``host:port``; nothing for "".

    Raises
    ------
    ConfigError
        If the address cannot be taken.
    """
    if not address:
        yield
        return
    host, port = parse_address(address)
    # Whoever streams a log is not waited for.
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        try:
            await site.start()
        except OSError as error:
            text = f"cannot listen on {address}: {error.strerror}"
            raise ConfigError([f"{setting}: {text}"]) from error
        yield
    finally:
        await asyncio.shield(runner.cleanup())
