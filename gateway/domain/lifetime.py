"""Decide whether a cluster has outlived its use. Pure, level-triggered."""

from dataclasses import dataclass

from gateway.domain.cluster import StopReason


@dataclass(frozen=True, slots=True)
class Beat:
    """What the last sync of a scheduler said about its use.

    Parameters
    ----------
    age_s
        Seconds since that sync arrived.
    idle_s, no_client_s
        As in `gateway.domain.sync.SyncReport`.
    """

    age_s: float
    idle_s: float
    no_client_s: float


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Longest times, in seconds; 0 is for ever."""

    idle_timeout_s: float
    no_client_timeout_s: float
    max_lifetime_s: float


# Older facts decide nothing: a gateway or scheduler that was away asks again.
FRESH_S = 60.0


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
    if 0 < limit <= beat.idle_s:
        return StopReason.IDLE, f"idle for {limit:g} s (idle_timeout)"
    limit = lifetimes.no_client_timeout_s
    if 0 < limit <= beat.no_client_s:
        return StopReason.NO_CLIENT, f"no client for {limit:g} s (no_client_timeout)"
    return None
