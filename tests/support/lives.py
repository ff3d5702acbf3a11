"""Sessions, clients and looks at one cluster of a stack, shared by several folders."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dask_gateway import BasicAuth, Gateway
from distributed import Client

from tests.support.stack import PASSWORD, Stack


def open_session(stack: Stack, user: str = "alice") -> Gateway:
    """Return the stock client's session with a stack's gateway."""
    auth = BasicAuth(user, PASSWORD)
    return Gateway(stack.address, auth=auth, asynchronous=True)


@asynccontextmanager
async def connected(stack: Stack, cluster: str) -> AsyncIterator[Client]:
    """Yield a client of a cluster, with nothing left open afterwards."""
    async with (
        open_session(stack) as session,
        await session.connect(cluster) as found,
        found.get_client(set_as_default=False) as client,
    ):
        yield client


def look_up(stack: Stack, cluster: str, path: str = "") -> dict[str, Any]:
    """GET something of a cluster; nothing while nobody answers."""
    try:
        found = stack.get(f"/api/v1/clusters/{cluster}{path}")
    except OSError:  # refused, or a status that is none
        return {}
    assert isinstance(found, dict)
    return found


def status_of(stack: Stack, cluster: str) -> str:
    """Return a cluster's status, "" while nobody answers."""
    return str(look_up(stack, cluster).get("status", ""))


def running_workers(stack: Stack, cluster: str) -> list[str]:
    """Return the names of the workers that run, by the API."""
    workers = look_up(stack, cluster, "/workers").get("workers", ())
    return [w["name"] for w in workers if w["status"] == "Running"]


def events_of(stack: Stack, cluster: str) -> dict[str, str]:
    """Return the last message of each kind of event."""
    events = look_up(stack, cluster, "/events").get("events", ())
    return {event["reason"]: event["message"] for event in events}
