"""``daskfleet controller``: from a configuration file to a graceful end."""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from backends.kubernetes.config import make_controller
from backends.kubernetes.controller.app import run_controller
from gateway import __version__
from gateway.config.dropin import install_peer_names
from gateway.config.loader import load_config
from gateway.config.logs import configure_logs
from gateway.domain.errors import BackendError

_log = structlog.get_logger()

# EX_TEMPFAIL of sysexits(3): a supervisor should try again.
_TRY_AGAIN: Final = 75


def run(config_file: Path | None, *, log_level: str | None = None) -> int:
    """Run a controller until it is told to stop, and return its exit status.

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
        loaded.config.KubeController.log_level = log_level
    controller = make_controller(loaded.config)
    settings = controller.resolve()
    configure_logs(level=controller.log_level, style=controller.log_style)
    _log.info(
        "controller starting",
        version=__version__,
        config_file=None if loaded.path is None else str(loaded.path),
        namespaces=list(settings.namespaces) or "all",
    )
    try:
        asyncio.run(
            run_controller(
                settings,
                kubeconfig=controller.kubeconfig,
                context=controller.kube_context,
            )
        )
    except BackendError as error:
        _log.error("controller cannot start", problem=str(error))
        return _TRY_AGAIN
    return 0
