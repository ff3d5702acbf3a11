"""A gateway that has only the sync route, and can be told how to fail.

It refuses what the real one would refuse, so a plugin that passes here speaks the
protocol: each report must decode, strictly, to the fields of ``SyncReport``.
"""

import asyncio
import ssl
from dataclasses import fields
from typing import Any

import msgspec
from aiohttp import web

from gateway.domain.scaling import clamp_target
from gateway.domain.sync import MAX_WAIT_S, Adaptive, SyncReply, SyncReport

TOKEN = "secret-1"

_FIELDS = {field.name for field in fields(SyncReport)}


class SyncServer:
    """One cluster as its plugin meets it.

    Parameters
    ----------
    cluster, token
        Others are unknown.
    tls
        Serve HTTPS with this context, from the next start on.

    Attributes
    ----------
    reports
        All that were accepted, oldest first.
    problems
        What was wrong with others; a test looks at the end.
    failing
        Status to answer every call with, while set.
    held, most_held
        Calls under way, and the highest number at once.
    extra
        Keys of a later protocol to add to each answer.
    """

    def __init__(
        self,
        cluster: str = "c1",
        token: str = TOKEN,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.cluster = cluster
        self.token = token
        self.reply = SyncReply(generation=1, replicas=0)
        self.reports: list[SyncReport] = []
        self.problems: list[str] = []
        self.failing: int | None = None
        self.calls = 0
        self.held = 0
        self.most_held = 0
        self.extra: dict[str, Any] = {}
        self.tls = tls
        self._port = 0
        self._moved = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What the plugin is given; ends with ``/api``."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._port}/api"

    @property
    def last(self) -> SyncReport:
        """The latest report."""
        assert self.reports, "no report yet"
        return self.reports[-1]

    async def start(self) -> None:
        """Listen; the second time on the same port."""
        app = web.Application()
        app.router.add_post("/api/v1/clusters/{name}/sync", self._sync)
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self.tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Refuse connections and cut those that are open."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def want(self, **changes: Any) -> None:
        """Change what is wanted, under a new generation, and answer held calls."""
        values = {
            field.name: getattr(self.reply, field.name) for field in fields(SyncReply)
        }
        values["generation"] += 1
        self.reply = SyncReply(**{**values, **changes})
        async with self._moved:
            self._moved.notify_all()

    async def adapt(self, minimum: int, maximum: int) -> None:
        """Accept adaptive bounds under a new id."""
        bounds = Adaptive(f"a{self.reply.generation + 1}", minimum, maximum)
        await self.want(
            adaptive=bounds,
            replicas=clamp_target(self.reply.replicas, minimum, maximum),
        )

    async def _sync(self, request: web.Request) -> web.Response:
        self.calls += 1
        response = await self._answer(request)
        if self.failing is not None:  # held calls too
            return web.Response(status=self.failing, text="<h1>not now</h1>")
        return response

    async def _answer(self, request: web.Request) -> web.Response:
        known = request.match_info["name"] == self.cluster
        if not known or request.headers.get("Authorization") != f"token {self.token}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            report = self._parse(await request.read())
        except (msgspec.DecodeError, ValueError) as error:
            self.problems.append(str(error))
            return web.json_response({"error": str(error)}, status=422)
        self.reports.append(report)
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        try:
            await self._take_target(report)
            await self._hold(report)
        finally:
            self.held -= 1
        return web.json_response(msgspec.to_builtins(self.reply) | self.extra)

    def _parse(self, body: bytes) -> SyncReport:
        raw = msgspec.json.decode(body)
        if unknown := raw.keys() - _FIELDS:
            raise ValueError(f"unknown keys: {unknown}")
        report = msgspec.convert(raw, SyncReport)
        if not 0 <= report.wait_s <= MAX_WAIT_S:
            raise ValueError(f"wait_s: {report.wait_s}")
        return report

    async def _take_target(self, report: SyncReport) -> None:
        bounds = self.reply.adaptive
        if bounds is None or report.adaptive_id != bounds.id or report.target is None:
            return
        replicas = clamp_target(report.target, bounds.minimum, bounds.maximum)
        if replicas != self.reply.replicas:
            await self.want(replicas=replicas)

    async def _hold(self, report: SyncReport) -> None:
        try:
            async with asyncio.timeout(report.wait_s), self._moved:
                await self._moved.wait_for(lambda: self.reply.generation > report.seen)
        except TimeoutError:
            pass
