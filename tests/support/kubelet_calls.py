"""HTTP calls of the stand-in kubelet, which outlast a restart of the API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Self

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    StreamReader,
    TCPConnector,
)

from tests.harness.control_plane import ControlPlane

_STRATEGIC = "application/strategic-merge-patch+json"
_CALL_S = 60.0
_UNLIMITED = ClientTimeout(total=None, sock_connect=_CALL_S)
_RETRY_S = 0.2
_AT_ONCE = 16
_CLOSING_S = 0.05


class _Expired(Exception):
    """The watch's version is too old; a list gives a new one."""


class PodCalls:
    """Calls of one admin, from one event loop."""

    def __init__(self, plane: ControlPlane) -> None:
        self._url = plane.url
        self._context = plane.client().context
        self._headers = {"Authorization": f"Bearer {plane.token}"}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._session: ClientSession

    async def __aenter__(self) -> Self:
        self._session = ClientSession(
            headers=self._headers,
            connector=TCPConnector(ssl=self._context, limit=0),
            timeout=ClientTimeout(total=_CALL_S),
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._session.connector is not None
        await self._session.connector.close(abort_ssl=True)
        await asyncio.sleep(_CLOSING_S)  # an aborted transport closes a turn later

    async def send(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer; None where the object is gone, or there already."""
        content = _STRATEGIC if method == "PATCH" else "application/json"
        if "coordination" in path and method == "PATCH":
            content = "application/merge-patch+json"
        headers = {"Content-Type": content}
        sent = None if body is None else json.dumps(body)
        while True:
            with suppress(ClientError, TimeoutError):
                async with (
                    self._room,
                    self._session.request(
                        method, self._url + path, data=sent, headers=headers
                    ) as answer,
                ):
                    # 403: its namespace is ending; the admin may do anything else.
                    if answer.status in {403, 404, 409}:
                        return None
                    if answer.status < 300:
                        return await answer.json()
                    if answer.status != 429 and answer.status < 500:
                        text = await answer.text()
                        raise AssertionError(f"{method} {path}: {text}")
            await asyncio.sleep(_RETRY_S)

    async def get(self, path: str) -> Any:
        """Return what is at ``path``."""
        found = await self.send("GET", path)
        assert found is not None, f"nothing at {path}"
        return found

    async def watch_pods(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield all pods and then their changes, for ever."""
        while True:
            listed = await self.get("/api/v1/pods")
            for pod in listed["items"]:
                yield "ADDED", pod
            with suppress(ClientError, TimeoutError, _Expired):
                async for event in self._events(listed["metadata"]["resourceVersion"]):
                    yield event["type"], event["object"]

    async def _events(self, version: str) -> AsyncIterator[dict[str, Any]]:
        url = f"{self._url}/api/v1/pods?watch=1&resourceVersion={version}"
        async with self._session.get(url, timeout=_UNLIMITED) as answer:
            transport = answer.connection and answer.connection.transport
            try:
                async for line in _lines(answer.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _Expired
                    yield event
            finally:
                # A polite end of TLS would outlive the loop.
                if transport:
                    transport.abort()


async def _lines(content: StreamReader) -> AsyncIterator[bytes]:
    # No line is too long, as it would be for the stream's own reader.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
