"""Clamp wanted numbers of workers to a cluster's limits, and say so."""

from dataclasses import dataclass, replace

from gateway.domain.errors import InvalidRequest

# How many workers a cluster may have by the caps of its shares, ``None`` for any
# number, and the name of the share that says so.
Room = tuple[int | None, str]


@dataclass(frozen=True, slots=True)
class ScaleOutcome:
    """A number that was accepted.

    Parameters
    ----------
    replicas
        Wanted number of workers, within the limits.
    message
        What the stock client shows as a warning; ``None`` if nothing was cut.
    """

    replicas: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AdaptOutcome:
    """Adaptive bounds that were accepted; ``message`` as in `ScaleOutcome`."""

    minimum: int
    maximum: int
    message: str | None = None


def derive_max_workers(
    *,
    max_workers: int | None = None,
    cores: tuple[float | None, float, float] = (None, 0, 0),
    memory: tuple[float | None, float, float] = (None, 0, 0),
) -> int | None:
    """Return the effective cap on the workers of a cluster, ``None`` for none.

    Parameters
    ----------
    max_workers
        The explicit cap.
    cores, memory
        (cap of the cluster, scheduler's share, one worker's share), in cores
        and in bytes. A worker's share of 0 does not limit. Three decimals
        count.

    Examples
    --------
    >>> derive_max_workers(max_workers=9, cores=(10, 1, 2))
    4
    >>> derive_max_workers(cores=(0.3, 0.1, 0.1))
    2
    >>> derive_max_workers() is None
    True
    """
    caps = [] if max_workers is None else [max_workers]
    for cap, scheduler, worker in (cores, memory):
        if cap is not None and (one := to_thousandths(worker)) > 0:
            caps.append((to_thousandths(cap) - to_thousandths(scheduler)) // one)
    return max(0, min(caps)) if caps else None


def to_thousandths(amount: float) -> int:
    """Return ``amount`` as an exact number, so that 0.1 + 0.2 fits under 0.3."""
    return round(amount * 1000)


def clamp_scale(count: int, max_workers: int | None) -> ScaleOutcome:
    """Clamp a number of workers that a user asked for.

    Raises
    ------
    InvalidRequest
        If ``count`` is negative.

    Notes
    -----
    Programs match on ``Scaling to <n> instead`` (peer: dask-gateway 2026.3).

    Examples
    --------
    >>> clamp_scale(7, 5).replicas, clamp_scale(3, 5).message
    (5, None)
    """
    if count < 0:
        raise InvalidRequest(
            "count", f"Scale expects a non-negative integer, got {count}"
        )
    if max_workers is None or count <= max_workers:
        return ScaleOutcome(count)
    return ScaleOutcome(
        max_workers,
        f"Scale request of {count} workers would exceed resource limit of "
        f"{max_workers} workers. Scaling to {max_workers} instead.",
    )


def clamp_adapt(
    minimum: int | None, maximum: int | None, max_workers: int | None, *, default: int
) -> AdaptOutcome:
    """Clamp adaptive bounds that a user asked for.

    Parameters
    ----------
    minimum, maximum
        As asked; ``None`` means 0 and "as many as allowed".
    max_workers
        Cap of the cluster.
    default
        Maximum where neither the user nor the cluster names one: an unbounded
        adaptive cluster once made 8,766 pods for one user.

    Raises
    ------
    InvalidRequest
        If a bound is negative, or the minimum is above the maximum.

    Notes
    -----
    Programs match on ``Using `maximum=M, minimum=m` instead``.

    Examples
    --------
    >>> clamp_adapt(None, 9, 5, default=100).maximum
    5
    >>> clamp_adapt(2, 4, None, default=100).message is None
    True
    """
    for field, bound in (("minimum", minimum), ("maximum", maximum)):
        if bound is not None and bound < 0:
            raise InvalidRequest(field, f"must be >= 0, got {bound}")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidRequest(
            "minimum", f"must be <= maximum ({maximum}), got {minimum}"
        )
    low = 0 if minimum is None else minimum
    caps = [cap for cap in (maximum, max_workers) if cap is not None]
    high = min(caps, default=max(default, low))
    low = min(low, high)
    message = None
    if (minimum or 0) > low or (maximum is not None and maximum > high):
        message = (
            f"Adapt with `maximum={maximum}, minimum={minimum}` would exceed resource "
            f"limit of {high} workers. Using `maximum={high}, minimum={low}` instead."
        )
    elif maximum is None and max_workers is None:
        message = (
            f"Adapt without a maximum. Using `maximum={high}, minimum={low}` instead."
        )
    return AdaptOutcome(low, high, message)


def fit_scale(
    count: int, max_workers: int | None, room: Room, *, most: int
) -> ScaleOutcome:
    """Clamp a number of workers to a cluster's cap, then to what its shares leave.

    Parameters
    ----------
    room
        As `gateway.domain.policy.room_for_workers` returns it.
    most
        Workers of any cluster, whatever its cap.

    Raises
    ------
    InvalidRequest
        If ``count`` is negative.

    Examples
    --------
    >>> fit_scale(7, 5, (3, "user 'alice'"), most=100).replicas
    3
    """
    cap = most if max_workers is None else min(max_workers, most)
    outcome = clamp_scale(count, cap)
    left, share = room
    if left is None or outcome.replicas <= left:
        return outcome
    return ScaleOutcome(
        left,
        f"Scale request of {count} workers would exceed the limit of {share}. "
        f"Scaling to {left} instead.",
    )


def fit_adapt(
    bounds: tuple[int | None, int | None],
    max_workers: int | None,
    room: Room,
    *,
    default: int,
    most: int,
) -> AdaptOutcome:
    """Clamp adaptive bounds as `fit_scale` does a number.

    Parameters
    ----------
    bounds
        Minimum and maximum as asked for.
    default
        As for `clamp_adapt`, whose errors it raises.

    Examples
    --------
    >>> outcome = fit_adapt((2, 9), None, (1, "user 'alice'"), default=5, most=100)
    >>> outcome.minimum, outcome.maximum
    (1, 1)
    """
    minimum, maximum = bounds
    outcome = clamp_adapt(minimum, maximum, max_workers, default=default)
    outcome = replace(
        outcome,
        minimum=min(outcome.minimum, most),
        maximum=min(outcome.maximum, most),
    )
    left, share = room
    if left is None or outcome.maximum <= left:
        return outcome
    low = min(outcome.minimum, left)
    return AdaptOutcome(
        low,
        left,
        f"Adapt with `maximum={maximum}, minimum={minimum}` would exceed the "
        f"limit of {share}. Using `maximum={left}, minimum={low}` instead.",
    )


def clamp_target(target: int, minimum: int, maximum: int) -> int:
    """Return ``target`` within the adaptive bounds."""
    return max(minimum, min(maximum, target))
