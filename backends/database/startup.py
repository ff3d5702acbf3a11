"""From settings to a connected server. Reads files."""

import asyncio
import os
from pathlib import Path
from typing import Final

import structlog

from backends.database.config import KEY_FILE, DBBackendBase
from backends.database.engine import database_file, is_in_memory, parse_url
from backends.database.launcher import Launcher
from backends.database.routes import Routes
from backends.database.runtime import Runtime, RuntimeSettings
from backends.database.vault import SETTING, parse_keys, read_key_file
from gateway.aio.budget import Budget
from gateway.domain.errors import ConfigError, Unavailable
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# A database that is started together with the gateway needs some seconds.
_CONNECT_S: Final = 30.0
_CONNECT_AGAIN_S: Final = 0.5
_KEY_BYTES: Final = 32


def make_settings(config: DBBackendBase) -> RuntimeSettings:
    """Return what ``config`` says; the key file is made if there is none. Blocks.

    Raises
    ------
    ConfigError
        If a key or the directory cannot be used.
    """
    url = parse_url(config.db_url)
    directory = Path(config.data_directory) if config.data_directory else None
    if directory is not None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = parse_keys(config.db_encrypt_keys)
    if not keys and is_in_memory(url):
        keys = (os.urandom(_KEY_BYTES),)  # it ends with this process, so they may
    elif not keys and directory is not None:
        keys = read_key_file(directory / KEY_FILE)
    elif not keys:
        raise ConfigError([f"{SETTING}: is needed where there is no data_directory"])
    file = database_file(url)
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return RuntimeSettings(
        url=url,
        keys=keys,
        timeout_s=config.db_timeout,
        echo=config.db_debug,
        parallelism=config.parallelism,
        backoff_base_s=config.backoff_base_delay,
        backoff_max_s=config.backoff_max_delay,
        observe_period_s=config.observe_period,
        lease_s=config.lease_duration,
        retention_s=config.db_cluster_max_age,
        cleanup_period_s=config.db_cleanup_period,
        gateway_url=config.proxy.gateway_url or config.gateway_url,
    )


def make_runtime(
    config: DBBackendBase, launcher: Launcher, routes: Routes, clock: Clock
) -> Runtime:
    """Return a server's parts, not yet connected. Blocks; raises `ConfigError`."""
    settings = make_settings(config)
    return Runtime(settings, launcher=launcher, routes=routes, clock=clock)


async def connect(runtime: Runtime) -> None:
    """Connect, with some patience for a database that is only just starting.

    Raises
    ------
    ConfigError
        If keys or version do not fit.
    Unavailable
        If it does not answer within half a minute.
    """
    budget = Budget(_CONNECT_S)
    while True:
        try:
            await runtime.connect()
        except Unavailable as error:
            if budget.is_over():
                raise
            log.warning("database not there yet", error=str(error))
            await asyncio.sleep(_CONNECT_AGAIN_S)
        else:
            return
