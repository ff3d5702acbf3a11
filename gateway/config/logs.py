"""Set up the log of a process: lines for people, or one JSON object a line."""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

# They say at INFO what our own log says better, or what nobody asked for.
_QUIET: Final = ("aiohttp", "aiosqlite", "alembic", "asyncio", "sqlalchemy")


def configure_logs(*, level: str, style: str, is_final: bool = True) -> None:
    """Write all logs to standard error.

    Parameters
    ----------
    level
        Least level: a name of `logging`.
    style
        ``console``, ``json``, or ``auto``: console on a terminal.
    is_final
        Nobody configures logs again: each logger is then put together only once,
        which halves what a line costs.
    """
    least = logging.getLevelNamesMapping()[level]
    is_terminal = sys.stderr.isatty()
    as_json = style == "json" or (style == "auto" and not is_terminal)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final = _make_renderer(as_json=as_json, colours=is_terminal)
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=is_final,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *final,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))


def _make_renderer(*, as_json: bool, colours: bool) -> list[Any]:
    if as_json:
        return [
            structlog.processors.ExceptionRenderer(
                # Values of local variables may be secrets.
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(_format_json),
        ]
    # Values of local variables may be secrets, so the plain formatter.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]


def _format_json(event: Any, *, default: Callable[[Any], Any]) -> str:  # noqa: ANN401 - structlog's signature
    try:
        return msgspec.json.encode(event, enc_hook=default).decode()
    except (TypeError, ValueError):
        # A lone surrogate or an odd key: slowly, rather than not at all.
        return json.dumps(event, default=default, skipkeys=True)
