"""The REST API over a backend in memory, and a client to it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, web
from aiohttp.test_utils import TestServer

from gateway.auth import Authenticator, SimpleAuthenticator
from gateway.http.app import build_app
from gateway.http.services import AppServices, HttpSettings
from tests.support.builders import FakeClock, basic
from tests.support.memory_backend import MemoryBackend

SIGNING_KEY = b"a signing key of the tests 32 b."


@dataclass
class Answer:
    """A response that was read to its end."""

    status: int
    headers: Any
    text: str
    json: Any
    cookies: Any


@dataclass
class Api:
    """A running API.

    Parameters
    ----------
    backend, clock
        To change what is behind it.
    url
        Without a slash at its end.
    session
        Keeps no cookies and follows no redirects.
    app
        For white-box tests.
    """

    backend: MemoryBackend
    clock: FakeClock
    url: str
    session: ClientSession
    app: web.Application
    server: TestServer

    async def call(
        self,
        method: str,
        path: str,
        *,
        user: str | None = None,
        headers: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> Answer:
        """Send one request, as ``user`` if one is named."""
        sent = {**({} if user is None else basic(user)), **(headers or {})}
        async with self.session.request(
            method, self.url + path, headers=sent, allow_redirects=False, **kwargs
        ) as response:
            body = await response.read()
            is_json = response.content_type == "application/json" and body
            return Answer(
                response.status,
                response.headers,
                body.decode(),
                await response.json() if is_json else None,
                response.cookies,
            )

    async def get(self, path: str, **kwargs: Any) -> Answer:
        return await self.call("GET", path, **kwargs)

    async def post(self, path: str, **kwargs: Any) -> Answer:
        return await self.call("POST", path, **kwargs)

    async def delete(self, path: str, **kwargs: Any) -> Answer:
        return await self.call("DELETE", path, **kwargs)


@asynccontextmanager
async def running_api(
    backend: MemoryBackend | None = None,
    *,
    authenticator: Authenticator | None = None,
    **settings: Any,
) -> AsyncIterator[Api]:
    """Serve the API on a port of 127.0.0.1; ``root`` is an admin."""
    clock = FakeClock()
    backend = backend or MemoryBackend(clock=clock)
    backend.clock = clock
    services = AppServices(
        backend=backend,
        authenticator=authenticator or SimpleAuthenticator(admin_users={"root"}),
        clock=clock,
        signing_keys=[SIGNING_KEY],
        settings=replace(HttpSettings(wait_s=20), **settings),
    )
    app = build_app(services)
    async with (
        TestServer(app) as server,
        ClientSession(cookie_jar=DummyCookieJar()) as session,
    ):
        url = str(server.make_url("")).rstrip("/")
        yield Api(backend, clock, url, session, app, server)
