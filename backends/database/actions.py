"""What a plan may ask for, as plain values. Pure.

A plan is written first and carried out after: see `Plan`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from backends.database.launcher import JobRef
from backends.database.records import ClusterRecord, WorkerRecord
from gateway.domain.cluster import ClusterEvent


@dataclass(frozen=True, slots=True)
class Change:
    """One write: all of it or nothing, and only over the version it was made from.

    Parameters
    ----------
    cluster
        As it is to be; version and generation are the store's to count.
    workers
        New and changed rows only.
    events
        To be kept with it.
    """

    cluster: ClusterRecord
    workers: tuple[WorkerRecord, ...] = ()
    events: tuple[ClusterEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the job of ``ref``; harmless if it was started before."""

    ref: JobRef


@dataclass(frozen=True, slots=True)
class StopJob:
    """Ask the job of ``ref`` to end; harmless if it never was."""

    ref: JobRef


@dataclass(frozen=True, slots=True)
class ForgetCluster:
    """Remove what the launcher has kept of the cluster, logs included."""


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Delete the cluster's rows."""


Action = StartJob | StopJob | ForgetCluster | DeleteCluster


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of one cluster.

    Parameters
    ----------
    change
        Committed before any action begins; if it comes too late, nothing of
        the plan is done. ``None`` if the rows stay as they are.
    actions
        Carried out after it. Each may be lost or repeated without harm.
    look_again_ms
        Instant at which time alone changes the plan; ``None`` if it does not.
    """

    change: Change | None = None
    actions: tuple[Action, ...] = ()
    look_again_ms: int | None = None


def find_earliest(instants: Iterable[int | None]) -> int | None:
    """Return the first of ``instants`` that is one.

    Examples
    --------
    >>> find_earliest([None, 7, 5])
    5
    """
    return min((instant for instant in instants if instant is not None), default=None)
