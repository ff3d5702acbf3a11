"""Decide whether a cluster has outlived its use. Pure, level-triggered."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.domain.cluster import StopReason

# Older facts decide nothing: a gateway or scheduler that was away asks again.
FRESH_S: Final = 60.0
# So much of the longest life has passed when people are warned of its end.
WARNING_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Beat:
    """What the last sync of a scheduler said about its use.

    Parameters
    ----------
    age_s
        Seconds since that sync arrived.
    idle_s, no_client_s
        As in `gateway.domain.sync.SyncReport`.
    awaited_s
        Seconds since the cluster last waited for workers that somebody asked
        for, see `count_awaited_s`; ``None`` if it did not.
    """

    age_s: float
    idle_s: float
    no_client_s: float
    awaited_s: float | None = None

    @property
    def unused_s(self) -> float:
        """Seconds for which it neither computed nor waited for its workers."""
        return min(
            self.idle_s, self.idle_s if self.awaited_s is None else self.awaited_s
        )


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Longest times, in seconds; 0 is for ever."""

    idle_timeout_s: float
    no_client_timeout_s: float
    max_lifetime_s: float


def count_awaited_s(
    *, asked_s: float | None, patience_s: float, missing: int, arrived_s: float | None
) -> float | None:
    """Return the seconds since a cluster last waited for workers, 0 while it does.

    Somebody who asks for workers and has nothing to compute until they are there
    uses the cluster. The wait counts for as long as a worker may take to start, and
    no longer: workers that are lost and come back all the time, without anybody
    asking, keep no cluster alive.

    Parameters
    ----------
    asked_s
        Seconds since people last said how many they want; ``None``: never.
    patience_s
        Seconds that a worker may take to start.
    missing
        How many of those that are wanted are not connected, <= 0 if none is.
    arrived_s
        Seconds since the last of those that are came; ``None`` if none did.

    Examples
    --------
    >>> count_awaited_s(asked_s=50, patience_s=60, missing=1, arrived_s=None)
    0.0
    >>> count_awaited_s(asked_s=80.0, patience_s=60, missing=1, arrived_s=None)
    20.0
    >>> count_awaited_s(asked_s=80.0, patience_s=60, missing=0, arrived_s=30.0)
    30.0
    >>> count_awaited_s(asked_s=80, patience_s=60, missing=0, arrived_s=90)
    """
    if asked_s is None:
        return None
    over_s = max(0.0, asked_s - patience_s)
    if missing > 0:
        return over_s
    if arrived_s is None or arrived_s > asked_s:
        return None  # they were there when they were asked for
    return max(over_s, arrived_s)


def bound_seconds(seconds: float) -> float:
    """Return a scheduler's seconds as a number that can be compared and stored.

    What a scheduler reports is a user's to choose: negative ones, infinity and NaN
    become 0.

    Examples
    --------
    >>> bound_seconds(1.5), bound_seconds(-1.0), bound_seconds(math.nan)
    (1.5, 0.0, 0.0)
    """
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def decide_stop(
    lifetimes: Lifetimes, *, age_s: float, beat: Beat | None
) -> tuple[StopReason, str] | None:
    """Return why a running cluster should stop now, and its text, or ``None``.

    Parameters
    ----------
    lifetimes
        Of this cluster.
    age_s
        Seconds since it was created.
    beat
        The last sync; ``None`` before the first.

    Examples
    --------
    >>> limits = Lifetimes(idle_timeout_s=60, no_client_timeout_s=0, max_lifetime_s=0)
    >>> decide_stop(limits, age_s=99, beat=Beat(age_s=1, idle_s=61, no_client_s=61))
    (<StopReason.IDLE: 'IdleTimeout'>, 'idle for 60 s (idle_timeout)')
    >>> decide_stop(limits, age_s=999, beat=Beat(age_s=999, idle_s=61, no_client_s=0))
    """
    limit = lifetimes.max_lifetime_s
    if 0 < limit <= age_s:
        return StopReason.LIFETIME, f"ran for {limit:g} s (max_lifetime)"
    if beat is None or beat.age_s > FRESH_S:
        return None
    limit = lifetimes.idle_timeout_s
    if 0 < limit <= beat.unused_s:
        return StopReason.IDLE, f"idle for {limit:g} s (idle_timeout)"
    limit = lifetimes.no_client_timeout_s
    if 0 < limit <= beat.no_client_s:
        return StopReason.NO_CLIENT, f"no client for {limit:g} s (no_client_timeout)"
    return None


def find_due_s(lifetimes: Lifetimes, *, age_s: float, beat: Beat) -> float | None:
    """Return after how many seconds time alone could end a running cluster.

    Not before that `decide_stop` can say so, whatever happens meanwhile: who is
    busy now may be idle from now on. ``None`` if nothing limits it.

    Parameters
    ----------
    lifetimes, age_s, beat
        As for `decide_stop`; ``beat`` has just arrived.

    Examples
    --------
    >>> limits = Lifetimes(idle_timeout_s=60, no_client_timeout_s=0, max_lifetime_s=0)
    >>> find_due_s(limits, age_s=99, beat=Beat(age_s=0, idle_s=20, no_client_s=0))
    40.0
    """
    return min(_list_due_s(lifetimes, age_s, beat), default=None)


def find_warning_s(lifetimes: Lifetimes) -> float | None:
    """Return the age in seconds at which people are told of a cluster's end."""
    limit = lifetimes.max_lifetime_s
    return limit * WARNING_SHARE if limit > 0 else None


def describe_last_end(created_ms: int, lifetimes: Lifetimes) -> str:
    """Return the warning of a cluster's end, for the people who use it.

    Parameters
    ----------
    created_ms
        Milliseconds since the epoch.

    Examples
    --------
    >>> print(describe_last_end(0, Lifetimes(0, 0, 60)))
    this cluster ends at 1970-01-01 00:01:00 UTC, 60 s after it was made (max_lifetime)
    """
    limit = lifetimes.max_lifetime_s
    end = datetime.fromtimestamp(created_ms / 1000 + limit, UTC)
    return (
        f"this cluster ends at {end:%Y-%m-%d %H:%M:%S} UTC, {limit:g} s after it was "
        "made (max_lifetime)"
    )


def _list_due_s(lifetimes: Lifetimes, age_s: float, beat: Beat) -> Iterator[float]:
    for limit_s, passed_s in (
        (lifetimes.max_lifetime_s, age_s),
        (lifetimes.idle_timeout_s, beat.unused_s),
        (lifetimes.no_client_timeout_s, beat.no_client_s),
    ):
        if limit_s > 0:
            yield max(0.0, float(limit_s - passed_s))
