"""How long a cluster may take, idle and last: its own words over the defaults."""

from dataclasses import dataclass, fields

from backends.kubernetes.crd.values import ClusterSpec


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds; 0 is for ever where a timeout ends a running cluster.

    Parameters
    ----------
    idle_timeout_seconds, no_client_timeout_seconds, max_lifetime_seconds
        As in `gateway.domain.config.ResolvedConfig`.
    drain_timeout_seconds, adaptive_period_seconds
        For the plugin.
    scheduler_start_timeout_seconds
        From the first look at the cluster until it is Running. Nodes may have
        to be bought for it.
    worker_start_timeout_seconds
        From the node's choice until the program runs, and then again until it
        is connected. A worker that waits for a node is not late.
    image_pull_timeout_seconds
        How long an image may fail to come; a slow one that comes is no failure.
    worker_start_failure_limit
        Failed workers in a row that make a cluster fail which never had one.
    retention_seconds
        How long a cluster is kept after its end.
    """

    idle_timeout_seconds: float = 1800.0
    no_client_timeout_seconds: float = 1800.0
    max_lifetime_seconds: float = 0.0
    drain_timeout_seconds: float = 600.0
    adaptive_period_seconds: float = 3.0
    scheduler_start_timeout_seconds: float = 600.0
    worker_start_timeout_seconds: float = 600.0
    image_pull_timeout_seconds: float = 120.0
    worker_start_failure_limit: int = 3
    retention_seconds: float = 86400.0


def resolve_lifetimes(spec: ClusterSpec, defaults: Lifetimes) -> Lifetimes:
    """Return the lifetimes of a cluster: what it says, else the defaults.

    Examples
    --------
    >>> from backends.kubernetes.crd.values import LifetimesSpec
    >>> spec = ClusterSpec(lifetimes=LifetimesSpec(idle_timeout_seconds=5))
    >>> found = resolve_lifetimes(spec, Lifetimes(retention_seconds=9))
    >>> found.idle_timeout_seconds, found.retention_seconds
    (5, 9)
    """
    own = {
        field.name: getattr(spec.lifetimes, field.name, None)
        for field in fields(Lifetimes)
    }
    own["retention_seconds"] = spec.retention_seconds
    said = {name: value for name, value in own.items() if value is not None}
    rest = {
        field.name: getattr(defaults, field.name)
        for field in fields(Lifetimes)
        if field.name not in said
    }
    return Lifetimes(**said, **rest)
