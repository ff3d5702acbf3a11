"""Plain calls of the REST API of a gateway that runs somewhere else."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import (
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    encode_basic_auth,
)

from tests.support.stack import PASSWORD

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end; ``json`` is ``None`` if it is no JSON."""

    status: int
    headers: Mapping[str, str]
    text: str
    json: Any


@dataclass
class Rest:
    """Calls to one address, each with credentials and without cookies.

    Parameters
    ----------
    address
        Without a slash at its end.
    """

    session: ClientSession
    address: str

    def at(self, address: str) -> "Rest":
        """Return the same for another address."""
        return Rest(self.session, address)

    async def call(
        self,
        method: str,
        path: str,
        *,
        user: str | None = "alice",
        password: str = PASSWORD,
        headers: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> Reply:
        """Send one request; ``user=None`` sends no name and no password."""
        sent = dict(headers or {})
        if user is not None and "Authorization" not in sent:
            sent["Authorization"] = encode_basic_auth(user, password)
        async with self.session.request(
            method, self.address + path, headers=sent, allow_redirects=False, **kwargs
        ) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            value = await response.json() if is_json else None
            return Reply(response.status, response.headers, text, value)

    async def get(self, path: str, **kwargs: Any) -> Any:
        """Return the JSON of a GET that must succeed."""
        return self._expect(await self.call("GET", path, **kwargs), 200)

    async def create(self, *, user: str = "alice", **options: Any) -> str:
        """Return the name of a new cluster."""
        body = {"cluster_options": options}
        reply = await self.call("POST", "/api/v1/clusters/", user=user, json=body)
        return str(self._expect(reply, 201)["name"])

    async def scale(self, name: str, count: int, *, user: str = "alice") -> Any:
        """Return the answer to a scale that must be accepted, perhaps cut."""
        path = f"/api/v1/clusters/{name}/scale"
        reply = await self.call("POST", path, user=user, json={"count": count})
        return self._expect(reply, 200)

    async def stop(self, name: str, *, user: str = "alice") -> None:
        """Ask for the end of a cluster."""
        reply = await self.call("DELETE", f"/api/v1/clusters/{name}", user=user)
        self._expect(reply, 204)

    async def status(self, name: str, *, user: str = "alice") -> str:
        """Return the status of a cluster."""
        return str((await self.get(f"/api/v1/clusters/{name}", user=user))["status"])

    async def list_active(self, *, user: str = "alice") -> set[str]:
        """Return the names of a user's active clusters."""
        return set(await self.get("/api/v1/clusters/", user=user))

    async def count_workers(self, name: str, status: str = "Running") -> int:
        """Return how many workers of a cluster have ``status``."""
        found = await self.get(f"/api/v1/clusters/{name}/workers")
        return sum(worker["status"] == status for worker in found["workers"])

    @staticmethod
    def _expect(reply: Reply, status: int) -> Any:
        assert reply.status == status, f"{reply.status}: {reply.text}"
        return reply.json


@asynccontextmanager
async def calling(address: str, source: str | None = None) -> AsyncIterator[Rest]:
    """Open a session for calls to ``address``, from the address ``source``."""
    async with ClientSession(
        connector=TCPConnector(local_addr=None if source is None else (source, 0)),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=_TIMEOUT_S),
    ) as session:
        yield Rest(session, address)
