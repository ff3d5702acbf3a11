"""Calls to the API server: one session, plain JSON, a deadline on each.

Knows nothing of what the objects mean: bodies go in as values and come out as
bytes, so that each caller decodes only what it reads.
"""

import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Protocol, Self

import aiohttp
import msgspec
from yarl import URL

from backends.kubernetes.api.clock import ServerClock
from backends.kubernetes.api.connection import Connection, load_connection
from backends.kubernetes.api.errors import (
    Call,
    NotFound,
    Transient,
    translate,
)
from backends.kubernetes.api.reach import Reach
from backends.kubernetes.api.resources import Query, Resource, format_query
from gateway.aio.clock import SystemClock
from gateway.ports import Clock

# The server itself gives up after 60 s; who waits for longer waits in vain.
CALL_S: Final = 60.0
_CONNECT_S: Final = 10.0
_CHUNK: Final = 2**18

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_JSON: Final = "application/json"
_AGENT: Final = "daskfleet"


class Meter(Protocol):
    """Takes note of calls."""

    def note_call(
        self, verb: str, resource: str, status: int, duration_s: float
    ) -> None:
        """Count a call; ``status`` is 0 where there was no answer."""
        ...


class KubeClient:
    """Calls as one account; belongs to one event loop.

    Parameters
    ----------
    connection
        Where, and as whom.
    meter
        Counts calls, if given.
    url
        Instead of the connection's; for what stands between.
    clock
        Of this machine.

    Attributes
    ----------
    reach
        Whether the API server answers at all.
    clock
        Its time.

    Raises
    ------
    KubeError
        From every method; see `backends.kubernetes.api.errors`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        meter: Meter | None = None,
        url: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.namespace = connection.namespace
        self.reach = Reach()
        self.clock = ServerClock(clock or SystemClock())
        self._connection = connection
        self._meter = meter
        self._url = url or connection.url
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=connection.context, limit=0),
            headers={"User-Agent": _AGENT, "Accept": _JSON},
            timeout=aiohttp.ClientTimeout(total=CALL_S, sock_connect=_CONNECT_S),
            read_bufsize=_CHUNK,
        )

    @classmethod
    async def connect(
        cls, kubeconfig: str = "", context: str = "", *, meter: Meter | None = None
    ) -> Self:
        """Return a client of the API server that `load_connection` finds."""
        return cls(await load_connection(kubeconfig, context), meter=meter)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None,
        subresource: str = "",
        query: Query | None = None,
    ) -> bytes:
        """Return an object, or what a subresource such as ``log`` says."""
        call = Call("get", resource.plural, namespace, name)
        path = resource.format_path(namespace, name, subresource)
        return await self._send(call, "GET", path + format_query(query))

    async def read_list(
        self, resource: Resource, *, namespace: str | None, query: Query | None = None
    ) -> bytes:
        """Return a list, or one page of it."""
        call = Call("list", resource.plural, namespace)
        path = resource.format_path(namespace) + format_query(query)
        return await self._send(call, "GET", path)

    async def create(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        namespace: str | None,
        query: Query | None = None,
    ) -> bytes:
        """Create an object and return it as it is then."""
        metadata = manifest["metadata"]
        call = Call("create", resource.plural, namespace, metadata.get("name", ""))
        path = resource.format_path(namespace) + format_query(query)
        return await self._send(call, "POST", path, manifest)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | list[Any],
        *,
        namespace: str | None,
        subresource: str = "",
    ) -> bytes:
        """Change an object: by a merge patch, or a JSON patch if it is a list.

        A ``metadata.resourceVersion`` or ``uid`` in a merge patch is a
        precondition: `StaleWrite` if it does not hold.
        """
        content = JSON_PATCH if isinstance(patch, list) else MERGE
        call = Call("patch", resource.plural, namespace, name)
        path = resource.format_path(namespace, name, subresource)
        return await self._send(call, "PATCH", path, patch, content)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None,
        uid: str,
        resource_version: str | None = None,
    ) -> bytes | None:
        """Delete this very object, and in the background what it owns.

        Returns
        -------
        bytes or None
            The object as it goes, or a ``Status``; ``None`` if there is none.

        Raises
        ------
        StaleWrite
            If it has another ``uid`` or ``resource_version``.
        """
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        # All of it in the body: with one, the server ignores the query.
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        }
        call = Call("delete", resource.plural, namespace, name)
        path = resource.format_path(namespace, name)
        try:
            return await self._send(call, "DELETE", path, options)
        except NotFound:
            return None

    async def stream(
        self,
        resource: Resource,
        *,
        namespace: str | None,
        name: str = "",
        subresource: str = "",
        query: Query,
        silence_s: float | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield lines of a watch or of a log as they come, of any length.

        Parameters
        ----------
        silence_s
            Seconds without a byte after which it is taken for dead; ``None`` is
            never.

        Raises
        ------
        Transient
            If it breaks off or falls silent. It ends without one where the
            server ends it.
        """
        verb = "watch" if "watch" in query else "get"
        call = Call(verb, resource.plural, namespace, name)
        path = resource.format_path(namespace, name, subresource) + format_query(query)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_S, sock_read=silence_s
        )
        async with self._request(call, "GET", path, timeout=timeout) as answer:
            rest: list[bytes] = []
            async for chunk in answer.content.iter_any():
                first, *lines = chunk.split(b"\n")
                rest.append(first)
                for line in lines:
                    yield b"".join(rest)
                    rest = [line]
            if any(rest):
                yield b"".join(rest)

    async def _send(
        self,
        call: Call,
        method: str,
        path: str,
        body: object = None,
        content: str = _JSON,
    ) -> bytes:
        sent = None if body is None else msgspec.json.encode(body)
        async with self._request(
            call, method, path, body=sent, content=content
        ) as answer:
            return await answer.read()

    @asynccontextmanager
    async def _request(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content: str = _JSON,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - several limits, not one
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = await self._connection.read_headers()
        if body is not None:
            headers["Content-Type"] = content
        begun, status = self.clock.monotonic(), 0
        try:
            async with self._session.request(
                method,
                URL(self._url + path, encoded=True),
                data=None if body is None else io.BytesIO(body),
                headers=headers,
                timeout=timeout or aiohttp.helpers.sentinel,
                server_hostname=self._connection.server_name,
                allow_redirects=False,
            ) as answer:
                status = answer.status
                self.reach.note_answer(status)
                self.clock.note(answer.headers.get("Date", ""), begun)
                if status >= HTTPStatus.MULTIPLE_CHOICES:
                    said = await answer.read()
                    raise translate(call, status, said, answer.headers)
                yield answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if not status:
                self.reach.note_silence()
            reason = f"no answer: {type(error).__name__}"
            raise Transient(call, reason) from error
        finally:
            if self._meter is not None:
                duration_s = self.clock.monotonic() - begun
                self._meter.note_call(call.verb, call.resource, status, duration_s)
