"""What the core needs from the outside, as protocols.

Implementations stand in ``backends`` and ``gateway.auth``; nothing here does
anything by itself.
"""

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from gateway.domain.cluster import (
    Cluster,
    ClusterEvent,
    PublicStatus,
    StopReason,
    Worker,
)
from gateway.domain.options import Options
from gateway.domain.policy import Share, Usage
from gateway.domain.scaling import AdaptOutcome, ScaleOutcome
from gateway.domain.sync import SyncReply, SyncReport
from gateway.domain.user import User


class Clock(Protocol):
    """Source of time."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never steps; only differences count."""
        ...


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which log lines are wanted.

    Parameters
    ----------
    component
        ``scheduler`` or ``worker``.
    worker
        Name of the worker; needed for ``worker`` unless all are wanted.
    tail
        Highest number of lines from before now, per process.
    follow
        Go on with lines as they come.
    """

    component: str = "scheduler"
    worker: str | None = None
    tail: int = 100
    follow: bool = False


class Backend(Protocol):
    """Keeps clusters, starts and stops them. Any number of replicas share one store.

    Every method that changes something returns only once the change is
    durable. Names that do not exist raise `ClusterNotFound`; whether the
    caller may use a cluster is decided above.

    Raises
    ------
    Unavailable
        From any method, if the store does not answer in time.
    """

    async def setup(self, app: web.Application) -> None:
        """Connect to the store and start reconciling."""
        ...

    async def cleanup(self) -> None:
        """Stop reconciling; clusters go on running."""
        ...

    async def check_ready(self) -> None:
        """Return if the store answers and the state is loaded, else raise."""
        ...

    async def get_cluster_options(self, user: User) -> Options:
        """Return the options that ``user`` is offered."""
        ...

    async def start_cluster(
        self, user: User, cluster_options: Mapping[str, Any]
    ) -> str:
        """Accept a new cluster and return its name; it is not running yet.

        Raises
        ------
        InvalidRequest, RefusedOptions, LimitExceeded
            If the options or a cap refuse it; nothing was written.
        """
        ...

    async def list_clusters(
        self,
        username: str | None = None,
        statuses: Iterable[PublicStatus] | None = None,
    ) -> Sequence[Cluster]:
        """Return clusters of ``username`` (all if ``None``), oldest first.

        ``statuses`` defaults to the active ones. `Cluster.client` is not
        filled in: lists hand out no keys. While nothing has changed the very
        same tuple may come back, so that what was made of it can be kept.
        """
        ...

    async def get_cluster(self, name: str) -> Cluster:
        """Return one cluster, with its credentials while it is RUNNING."""
        ...

    async def wait_for_change(self, name: str, version: int, timeout_s: float) -> None:
        """Return once the cluster's version may have passed ``version``.

        Early and needless returns are allowed; also returns when the time is
        over or the cluster is gone.
        """
        ...

    async def stop_cluster(
        self, name: str, *, reason: StopReason = StopReason.USER, message: str = ""
    ) -> None:
        """Accept a stop; nothing happens if it has stopped or was asked to."""
        ...

    async def scale_cluster(self, name: str, replicas: int) -> ScaleOutcome:
        """Accept a wanted number of workers, ending adaptive mode.

        Raises
        ------
        InvalidRequest
            If it is negative.
        ClusterNotRunning
            If the cluster has ended or is stopping.
        """
        ...

    async def adapt_cluster(
        self, name: str, minimum: int | None, maximum: int | None
    ) -> AdaptOutcome:
        """Accept adaptive bounds under a new id. Raises as `scale_cluster`."""
        ...

    async def end_adaptive(self, name: str) -> None:
        """End adaptive mode; the number of workers stays. Raises as `scale_cluster`."""
        ...

    async def check_token(self, name: str, token: str) -> bool:
        """Return whether ``token`` is the one of cluster ``name``.

        Compares in constant time; false for a name that does not exist.
        """
        ...

    async def sync(self, name: str, report: SyncReport) -> SyncReply:
        """Take a scheduler's report, write what changed, return what is wanted.

        Never waits: holding the call is done above, by `wait_for_change`.
        """
        ...

    async def get_wanted(self, name: str) -> SyncReply:
        """Return what is wanted of a cluster; writes nothing.

        For a held sync that woke up: its report is old by then, and writing it
        again would undo what a newer one said.
        """
        ...

    async def list_events(self, name: str) -> Sequence[ClusterEvent]:
        """Return events of a cluster, oldest first."""
        ...

    async def list_workers(self, name: str) -> Sequence[Worker]:
        """Return workers of a cluster by ordinal, ended ones of late included."""
        ...

    def read_logs(self, name: str, query: LogQuery) -> AsyncIterator[str]:
        """Yield log lines without their newline, oldest first.

        Closing the iterator releases all it holds.
        """
        ...

    async def get_usage(self, user: User) -> Sequence[tuple[Share, Usage]]:
        """Return each capped share of ``user`` with what it holds now."""
        ...


class Authenticator(Protocol):
    """Tells who sent a request. The peer's contract, so sites' own classes fit."""

    async def setup(self, app: web.Application) -> None:
        """Prepare; called once before the first request."""
        ...

    async def cleanup(self) -> None:
        """Release everything."""
        ...

    def authenticate(self, request: web.Request) -> Awaitable[User | tuple[User, Any]]:
        """Return the user, or the user and a context for `pre_response`.

        Raises
        ------
        Unauthenticated
            If the credentials are absent, malformed or wrong.
        """
        ...

    async def pre_response(
        self,
        request: web.Request,
        response: web.StreamResponse,
        context: Any,  # noqa: ANN401 - whatever authenticate returned
    ) -> None:
        """Change the response, error responses too, before it is sent."""
        ...
