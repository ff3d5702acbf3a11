"""What the database backend needs from the proxy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Route:
    """Where the public port sends the traffic of one cluster.

    Parameters
    ----------
    cluster
        Name of the cluster: the SNI is ``daskgateway-<cluster>``, the path
        ``<prefix>/clusters/<cluster>/``.
    host
        Host of the scheduler as the proxy reaches it.
    scheduler_port
        Port of the Dask protocol.
    dashboard_port
        Port of the dashboard, ``None`` if it has none.
    """

    cluster: str
    host: str
    scheduler_port: int
    dashboard_port: int | None


class Routes(Protocol):
    """The table of the proxy, always given whole."""

    async def setup(self) -> None:
        """Start or adopt the proxy."""
        ...

    async def cleanup(self) -> None:
        """Release what this object holds; the proxy goes on serving."""
        ...

    async def publish(
        self, routes: Sequence[Route], gateways: Sequence[str] = ()
    ) -> None:
        """Make the table exactly this; returns once it is written.

        Parameters
        ----------
        routes
            Of all running clusters.
        gateways
            URLs of all gateways that serve the API; none means this one alone.
        """
        ...

    async def prove(self, cluster: str, ca_certificate: str) -> bool:
        """Return whether the cluster answers at the public port.

        True only if a TLS handshake there with the cluster's SNI was proved by
        the cluster's own CA.
        """
        ...

    async def prove_scheduler(self, route: Route, ca_certificate: str) -> bool:
        """Return whether the scheduler itself, behind the proxy, has that CA."""
        ...
