"""Tasks with an owner: whoever starts one also ends it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import structlog

from gateway.aio.backoff import Backoff

log = structlog.get_logger(__name__)

# A task that fails at once must neither spin nor stay away for long.
_RESTART_BASE_S = 0.5
_RESTART_CAP_S = 15.0
# After so long without a failure the next one counts as the first.
_CALM_S = 60.0


class Supervisor:
    """Owns background tasks for as long as its ``async with`` block lasts.

    A task that raises is logged with its stack and started again after a
    backoff; one that returns is finished. At the end of the block all tasks
    are cancelled and awaited.

    Parameters
    ----------
    backoff
        Makes the delays of one task; called once per task.
    """

    def __init__(
        self,
        *,
        backoff: Callable[[], Backoff] = lambda: Backoff(
            _RESTART_BASE_S, _RESTART_CAP_S
        ),
    ) -> None:
        self._make_backoff = backoff
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self, name: str, factory: Callable[[], Awaitable[None]]) -> None:
        """Run what ``factory`` returns, again after each failure.

        Parameters
        ----------
        name
            For logs and for the task's own name.
        factory
            Called once per attempt.
        """
        task = asyncio.get_running_loop().create_task(
            self._keep(name, factory), name=name
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        # Failures were logged by `_keep`; what is left is cancellation.
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, factory: Callable[[], Awaitable[None]]) -> None:
        backoff = self._make_backoff()
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await factory()
            except Exception as error:
                if loop.time() - started > _CALM_S:
                    backoff.reset()
                delay_s = backoff.next_s()
                log.exception(
                    "task failed",
                    task=name,
                    retry_in_s=round(delay_s, 3),
                    exc_info=error,
                )
                await asyncio.sleep(delay_s)
            else:
                return
