"""The stock client's side of the demo; nothing in here knows our server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from gateway.demo.report import StepFailed

WORKERS = 2
_STEP_S = 180.0
_REMEDY = (
    "look at the gateway's log named above; on a busy machine try again, "
    "and report it with the log if it stays"
)


class Session:
    """One user's cluster."""

    def __init__(self, gateway: Any) -> None:  # noqa: ANN401 - dask_gateway has no types
        self._gateway = gateway
        self._cluster: Any = None

    @property
    def dashboard_link(self) -> str:
        """Address of the dashboard; opens in a browser without a password."""
        return str(self._cluster.dashboard_link)

    async def create(self) -> str:
        """Create a cluster, wait until it is running, return its name."""
        self._cluster = await _bounded("new_cluster()", self._gateway.new_cluster())
        return str(self._cluster.name)

    async def scale(self, workers: int) -> None:
        """Scale and wait until the workers are there."""
        await _bounded("scale()", self._cluster.scale(workers))
        async with self._cluster.get_client(set_as_default=False) as client:
            await _bounded(
                "wait_for_workers()", _await(client.wait_for_workers(workers))
            )

    async def compute(self) -> int:
        """Sum squares on the workers and return the sum."""
        async with self._cluster.get_client(set_as_default=False) as client:
            # Bytes by value: the workers need none of our modules.
            squares = client.map(lambda n: n * n, range(1000))
            total = client.submit(sum, squares)
            return int(await _bounded("compute", _await(total)))

    async def stop(self) -> None:
        """Stop the cluster, if there is one."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await _bounded("shutdown()", cluster.shutdown())


@asynccontextmanager
async def connect(address: str, password: str) -> AsyncIterator[Session]:
    """Yield a session of user ``demo``; its cluster is stopped at the end."""
    from dask_gateway import BasicAuth, Gateway  # noqa: PLC0415 - an optional extra

    async with Gateway(
        address, auth=BasicAuth("demo", password), asynchronous=True
    ) as gateway:
        session = Session(gateway)
        try:
            yield session
        finally:
            await session.stop()


async def _await(value: Any) -> Any:  # noqa: ANN401 - distributed's awaitables
    return await value


async def _bounded(what: str, call: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
    try:
        return await asyncio.wait_for(call, _STEP_S)
    except TimeoutError:
        raise StepFailed(f"{what} took longer than {_STEP_S:.0f} s", _REMEDY) from None
    except Exception as failure:
        raise StepFailed(f"{type(failure).__name__}: {failure}", _REMEDY) from failure
