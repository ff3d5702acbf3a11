"""How one controller works, as plain values."""

from dataclasses import dataclass, field

from backends.kubernetes.api.lease import LeaseTimes
from backends.kubernetes.desired.blueprint import Settings


@dataclass(frozen=True, slots=True)
class AnchorOwner:
    """The chart's object that owns all that we make in a namespace.

    Parameters
    ----------
    name
        The same in all namespaces.
    is_cluster_scoped
        A ClusterRole without rules instead of a ConfigMap per namespace.
    """

    name: str
    is_cluster_scoped: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a controller works.

    Parameters
    ----------
    parallelism
        Clusters that are looked after at once.
    base_delay_s, max_delay_s
        Bounds of the delay after a failure.
    resync_s
        Each cluster is looked at again after so long without any change.
    rate_limit
        Writes per second; 0 is no limit: the API server says itself what is too
        much.
    """

    parallelism: int = 20
    base_delay_s: float = 0.1
    max_delay_s: float = 60.0
    resync_s: float = 600.0
    rate_limit: float = 0.0


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """All that a configuration says of the controller itself.

    Parameters
    ----------
    objects
        What is made of clusters.
    namespaces
        Where clusters may have their pods; empty is everywhere.
    namespace_selector
        Labels of those among them where they may; "" is any.
    anchor_owner
        See `AnchorOwner`.
    address, relay_address
        ``host:port`` of probes and metrics, and of live logs; "" is none.
    relay_token_file
        The API server shows its content; "" turns the relay off.
    proof_address
        ``host:port`` at which the proxy passes schedulers' TLS; "" proves
        nothing, and a scheduler that called the gateway is taken for reachable.
    """

    objects: Settings
    namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    anchor_owner: AnchorOwner = AnchorOwner("daskfleet-anchor")
    lease_name: str = "daskfleet-controller"
    lease_times: LeaseTimes = field(default_factory=LeaseTimes)
    pace: Pace = field(default_factory=Pace)
    address: str = ""
    relay_address: str = ""
    relay_token_file: str = field(default="", repr=False)
    proof_address: str = ""
