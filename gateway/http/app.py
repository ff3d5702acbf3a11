"""Put the REST API together."""

import asyncio
from collections.abc import AsyncIterator

import structlog
from aiohttp import web

from gateway.auth.session import Sessions
from gateway.http.dashboard import LINKS, show_absent
from gateway.http.identity import SESSIONS
from gateway.http.links import DashboardLinks
from gateway.http.metrics import METRICS, Metrics
from gateway.http.middlewares import (
    ROUTE_TABLE,
    add_headers,
    answer_errors,
    check_access,
    trace,
)
from gateway.http.openapi import show_document
from gateway.http.records import RECORDS, Records
from gateway.http.routes import ROUTES
from gateway.http.services import SERVICES, AppServices
from gateway.http.waits import HELD, HeldCalls

# Under the time that a supervisor gives a process which it stops.
_CLEANUP_S = 10.0

log = structlog.get_logger(__name__)


def build_app(services: AppServices) -> web.Application:
    """Return the application that serves the REST API.

    It sets up ``services.backend`` and ``services.authenticator`` when it
    starts and cleans both up when it ends. When it is shut down, calls that
    are held are answered first.

    Raises
    ------
    ConfigError
        If the signing keys cannot be used.
    """
    settings, keys = services.settings, services.signing_keys
    app = web.Application(middlewares=[trace, check_access, answer_errors])
    links = DashboardLinks(keys, settings.dashboard_link_max_age_s, services.clock)
    app[SERVICES] = services
    app[SESSIONS] = Sessions(keys, settings.cache_max_age_s, services.clock)
    app[LINKS] = links
    app[RECORDS] = Records(links)
    app[HELD] = HeldCalls()
    app[METRICS] = Metrics()
    app[ROUTE_TABLE] = {(route.method, route.path): route for route in ROUTES}
    for route in ROUTES:
        if route.method == "GET":
            app.router.add_get(route.path, route.handler)
        else:
            app.router.add_route(route.method, route.path, route.handler)
    app.router.add_get("/api/openapi.json", show_document)
    app.router.add_get("/clusters/{name}", show_absent)
    app.router.add_get("/clusters/{name}/{tail:.*}", show_absent)
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_release)
    app.cleanup_ctx.append(_run_authenticator)
    app.cleanup_ctx.append(_run_backend)
    return app


async def _release(app: web.Application) -> None:
    log.info("held calls released", number=len(app[HELD]))
    app[HELD].release()


async def _run_authenticator(app: web.Application) -> AsyncIterator[None]:
    authenticator = app[SERVICES].authenticator
    await authenticator.setup(app)
    yield
    try:
        async with asyncio.timeout(_CLEANUP_S):
            await authenticator.cleanup()
    except Exception:
        # The backend's own cleanup must not suffer from a site's code.
        log.exception("authenticator's cleanup failed")


async def _run_backend(app: web.Application) -> AsyncIterator[None]:
    backend = app[SERVICES].backend
    await backend.setup(app)
    yield
    await backend.cleanup()
