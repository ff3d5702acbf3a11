"""What a scheduler's plugin and the API tell each other.

The plugin asks, the API answers; nothing is ever sent to a scheduler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROTOCOL: Final = 1

# Held calls end before any proxy's usual minute.
MAX_WAIT_S: Final = 45.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a scheduler listens on its own host.

    Parameters
    ----------
    scheduler
        TCP port of the Dask protocol (TLS).
    dashboard
        TCP port of the dashboard (HTTP); ``None`` if it has none.
    """

    scheduler: int
    dashboard: int | None = None


@dataclass(frozen=True, slots=True)
class SyncReport:
    """State of one scheduler, as its plugin sees it.

    Parameters
    ----------
    protocol
        Version the plugin speaks.
    seen
        Highest generation that the plugin has been told; 0 before the first.
    wait_s
        How long the answer may be held, in seconds, 0 to 45.
    adaptive_id
        Id of the adaptive bounds that `target` was made under.
    target
        Number of workers that the adaptive loop wants.
    workers
        Names of our own workers that are connected and not draining.
    outsiders
        Number of connected workers that are not ours.
    draining
        Names of our own workers that get no new tasks and will be retired.
    held
        Reason by worker name, for a drain that cannot end: it alone holds data.
    clients
        Number of clients; ``fire-and-forget`` is none.
    no_client_s
        Seconds since there was a client; 0 while there is one.
    unfinished
        Number of tasks in any state that still has work ahead.
    idle_s
        Seconds since the last activity; 0 while there are unfinished tasks.
    ports
        Where the scheduler listens.
    versions
        Such as ``{"distributed": "2026.8.0", "python": "3.11.7"}``.
    """

    protocol: int
    seen: int = 0
    wait_s: float = 0.0
    adaptive_id: str | None = None
    target: int | None = None
    workers: tuple[str, ...] = ()
    outsiders: int = 0
    draining: tuple[str, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    clients: int = 0
    no_client_s: float = 0.0
    unfinished: int = 0
    idle_s: float = 0.0
    ports: Ports | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Bounds within which the plugin chooses the number of workers.

    Parameters
    ----------
    id
        Made anew with each accepted ``adapt``; a target under an older id is
        ignored.
    minimum, maximum
        Inclusive; ``maximum`` is never absent: policy gives one.
    """

    id: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SyncReply:
    """What is wanted of a scheduler.

    Parameters
    ----------
    generation
        Grows with each change of what is wanted.
    replicas
        Wanted number of our workers; while `adaptive` is set it is what the
        last target was clamped to.
    adaptive
        Bounds, or ``None`` if people chose the number.
    active
        False once the cluster is to stop.
    due_s
        Seconds after which time alone may end the cluster, ``None`` if nothing
        limits it. A held call is answered then, so that fresh facts decide.
    notice
        What people who use the cluster should know now, "" if nothing.
    """

    generation: int
    replicas: int
    adaptive: Adaptive | None = None
    active: bool = True
    protocol: int = PROTOCOL
    due_s: float | None = None
    notice: str = ""
