"""A controller in the test's own loop, so that a fault proxy can stand before it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import Connection
from backends.kubernetes.api.lease import LeaseTimes
from backends.kubernetes.config import KubeController
from backends.kubernetes.controller.app import Controller
from backends.kubernetes.controller.metrics import Metrics
from backends.kubernetes.controller.settings import ControllerSettings
from gateway.ports import Clock
from tests.support.controllers import Site
from tests.support.rights import INSTANCE

# Lets go of its lead within a second.
BRIEF = LeaseTimes(1, 0.6, 0.1)


def build_settings(
    site: Site, *, lease_times: LeaseTimes | None = None, **traits: Any
) -> ControllerSettings:
    """Return settings of a controller of ``site`` that listens nowhere."""
    given = {
        "gateway_instance": INSTANCE,
        "api_url": "http://gateway.test/api",
        "namespaces": list(site.targets),
        "address": "",
        "relay_address": "",
        **traits,
    }
    settings = KubeController(**given).resolve()
    return replace(settings, lease_times=lease_times or settings.lease_times)


@asynccontextmanager
async def controlling(
    connection: Connection,
    settings: ControllerSettings,
    url: str = "",
    *,
    is_killed: bool = False,
    clock: Clock | None = None,
) -> AsyncIterator[Metrics]:
    """Run a controller.

    Parameters
    ----------
    url
        To go through, instead of the connection's own.
    is_killed
        End it without a word to the API server.
    clock
        Of the machine that it is on.
    """
    metrics, stop = Metrics(), asyncio.Event()
    client = KubeClient(connection, meter=metrics, url=url, clock=clock)
    controller = Controller(client, settings, metrics)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(controller.run(stop))
            yield metrics
            if is_killed:
                running.cancel()
            stop.set()
    finally:
        await client.close()
