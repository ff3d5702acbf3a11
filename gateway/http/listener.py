"""Take connections for the application, and refuse what is no request as JSON too.

What cannot be parsed as HTTP never reaches the application. aiohttp answers it with
plain text and logs a stack for each, with which anybody could fill a disk.
"""

import asyncio
import socket
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong
from typing_extensions import override

from gateway.http.middlewares import dress, set_request_id
from gateway.http.replies import Failure, build_failure, describe_error

log = structlog.get_logger(__name__)

# Clients that connect in a burst wait here rather than being refused.
_BACKLOG: Final = 1024
_SERVER_ERROR: Final = 500
# A body is read as it was sent: one that is packed is refused before it is read, and
# neither a damaged one nor a bomb gets anywhere.
_UNPACKS: Final = False


class Listener:
    """Serves an application at one socket.

    Parameters
    ----------
    app
        Set up by `start`, and cleaned up by `stop`.
    grace_s
        Seconds that requests under way are given at the end.
    """

    def __init__(self, app: web.Application, *, grace_s: float) -> None:
        self._runner = web.AppRunner(
            app, handle_signals=False, access_log=None, shutdown_timeout=grace_s
        )
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Set the application up, and accept connections from ``listener``."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            self._connect, sock=listener, backlog=_BACKLOG
        )

    async def stop(self) -> None:
        """Accept no more; answer what is held, then end what takes too long."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _connect(self) -> "_Connection":
        server = self._runner.server
        if server is None:
            raise ConnectionAbortedError("the server is stopping")
        loop = asyncio.get_running_loop()
        return _Connection(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # none, as AppRunner passes it
            auto_decompress=_UNPACKS,
        )


class _Connection(web.RequestHandler):
    """One connection; writes no log of its own, since the middleware writes one."""

    __slots__ = ()

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = _SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        request_id = set_request_id(request)
        if isinstance(exc, HttpProcessingError):
            # Its text holds what was sent: perhaps a password.
            failure = Failure(400, "bad_request", _describe(exc))
            log.info(
                "request not understood",
                request_id=request_id,
                problem=type(exc).__name__,
            )
        else:
            failure = describe_error(exc or RuntimeError(message))
            log.error("request failed", request_id=request_id, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        response = build_failure(failure, request_id)
        dress(response, request_id)
        response.force_close()
        return response


def _describe(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "the path or a header of the request is too long"
    return "the request is not valid HTTP"
