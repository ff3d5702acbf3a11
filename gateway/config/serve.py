"""Run the API server: from a configuration file to a graceful end."""

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from traitlets.config import Config

from gateway import __version__
from gateway.aio.clock import SystemClock
from gateway.config.application import DaskGateway
from gateway.config.check import check_config
from gateway.config.dropin import install_peer_names
from gateway.config.loader import load_config
from gateway.config.logs import configure_logs
from gateway.config.problems import Problem, refuse_errors
from gateway.config.signing_keys import read_signing_keys
from gateway.config.traits import parse_address
from gateway.domain.errors import BackendError, ConfigError, InvariantError
from gateway.http.app import build_app
from gateway.http.listener import Listener
from gateway.http.services import AppServices, HttpSettings

_log = structlog.get_logger()

# EX_TEMPFAIL of sysexits(3): a supervisor should try again.
_TRY_AGAIN: Final = 75


def run_gateway(config_file: Path | None, *, log_level: str | None = None) -> int:
    """Run the API server until it is told to stop, and return its exit status.

    Parameters
    ----------
    config_file
        ``None`` looks for the default ones, see `gateway.config.loader`.
    log_level
        Over the one of the file.

    Raises
    ------
    ConfigError
        If the configuration cannot be used; nothing was started.
    """
    install_peer_names()
    loaded = load_config(config_file)
    if log_level is not None:
        loaded.config.DaskGateway.log_level = log_level
    checked = check_config(loaded)
    refuse_errors(checked.problems, strict=_is_strict(loaded.config))
    application = checked.application
    if application is None:
        raise InvariantError("a configuration without errors made no application")
    configure_logs(level=application.log_level, style=application.log_style)
    _report(checked.problems, loaded.path)
    keys = _prepare_files(application)
    try:
        return asyncio.run(_serve(application, keys))
    except (BackendError, OSError) as error:
        # A full disk, say, which needs no stack to be understood.
        _log.error("gateway cannot start", problem=str(error))
        return _TRY_AGAIN


def _is_strict(config: Config) -> bool:
    return "DaskGateway" in config and bool(config.DaskGateway.get("strict_config"))


def _report(problems: Sequence[Problem], path: Path | None) -> None:
    _log.info(
        "gateway starting",
        version=__version__,
        config_file=None if path is None else str(path),
    )
    for problem in problems:
        _log.warning(
            "configuration problem",
            setting=problem.setting,
            problem=problem.text,
            line=problem.line,
        )


def _prepare_files(application: DaskGateway) -> tuple[bytes, ...]:
    directory = Path(application.data_directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            [f"DaskGateway.data_directory: cannot make {directory}: {error.strerror}"]
        ) from error
    return read_signing_keys(Path(application.signing_key_file))


async def _serve(application: DaskGateway, keys: Sequence[bytes]) -> int:
    stop = _Stop()
    listener = _bind(application)
    server = Listener(_build(application, keys), grace_s=application.shutdown_grace)
    try:
        if await stop.interrupts(server.start(listener)):
            _log.info("gateway told to stop before it had started")
            return 0
        _spare_collector()
        _log.info(
            "gateway started",
            api=application.gateway_url,
            public=application.proxy.public_url or application.proxy.address,
        )
        await stop.wait()
        _log.info("gateway stopping")
    finally:
        # Held calls are answered first, then open ones get their time.
        await server.stop()
        listener.close()
    _log.info("gateway stopped")
    return 0


def _spare_collector() -> None:
    """Keep the collector away from what lives as long as the process.

    Modules, classes and configuration make a full collection hold the event loop
    for a fifth of a second, in the middle of some request.
    """
    gc.collect()
    gc.freeze()


def _build(application: DaskGateway, keys: Sequence[bytes]) -> web.Application:
    proxy = application.proxy
    authenticator = application.authenticator
    is_https = bool(proxy.tls_cert) or proxy.public_url.startswith("https:")
    return build_app(
        AppServices(
            backend=application.backend,  # type: ignore[arg-type]  # a derived class implements the port
            authenticator=authenticator,
            clock=SystemClock(),
            signing_keys=keys,
            settings=HttpSettings(
                prefix=proxy.prefix,
                cookie_name=authenticator.cookie_name,
                cache_max_age_s=authenticator.cache_max_age,
                secure_cookies=is_https,
                trusted_origins=frozenset(application.trusted_origins),
                dashboard_link_max_age_s=application.dashboard_link_max_age,
                dashboard_host=proxy.dashboard_host or None,
                credentials_in_list=application.credentials_in_list,
            ),
        )
    )


def _bind(application: DaskGateway) -> socket.socket:
    """Take the API's port, and tell ``application`` which one it is."""
    host, port = parse_address(application.address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        # A gateway that was killed leaves connections of its own behind.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        text = f"cannot listen on {application.address}: {error.strerror}"
        raise ConfigError([f"DaskGateway.address: {text}"]) from error
    port = listener.getsockname()[1]
    reachable = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not bound
    shown = f"[{reachable}]" if ":" in reachable else reachable
    application.announce(f"http://{shown}:{port}")
    return listener


class _Stop:
    """SIGTERM or SIGINT, which also end what has not yet started."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._starting: asyncio.Timeout | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask)

    async def wait(self) -> None:
        """Return once a signal has come."""
        await self._asked.wait()

    async def interrupts(self, starting: Awaitable[None]) -> bool:
        """Await ``starting``, and return whether a signal cut it short."""
        try:
            async with asyncio.timeout(None) as self._starting:
                await starting
        except TimeoutError:
            if not self._asked.is_set():
                raise
            return True
        finally:
            self._starting = None
        return False

    def _ask(self) -> None:
        self._asked.set()
        if self._starting is not None:
            self._starting.reschedule(asyncio.get_running_loop().time())
