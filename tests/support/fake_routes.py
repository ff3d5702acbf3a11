"""A proxy in memory: what is published is reachable, unless a test says not."""

from collections.abc import Sequence

from backends.database.routes import Route


class FakeRoutes:
    """A `backends.database.routes.Routes`.

    Attributes
    ----------
    table
        As last published.
    gateways
        As last published.
    publications
        Each table, in order.
    dead
        Names of clusters that do not answer at the public port.
    impostors
        Names of clusters whose scheduler does not prove their CA.
    """

    def __init__(self) -> None:
        self.table: tuple[Route, ...] = ()
        self.gateways: tuple[str, ...] = ()
        self.publications: list[tuple[Route, ...]] = []
        self.dead: set[str] = set()
        self.impostors: set[str] = set()
        self.failures = 0
        self.proved: list[tuple[str, str]] = []

    async def setup(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def publish(
        self, routes: Sequence[Route], gateways: Sequence[str] = ()
    ) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise OSError("no space left on device")
        self.table, self.gateways = tuple(routes), tuple(gateways)
        self.publications.append(self.table)

    async def prove(self, cluster: str, ca_certificate: str) -> bool:
        self.proved.append((cluster, ca_certificate))
        is_routed = any(route.cluster == cluster for route in self.table)
        return is_routed and cluster not in self.dead

    async def prove_scheduler(self, route: Route, ca_certificate: str) -> bool:
        assert "BEGIN CERTIFICATE" in ca_certificate
        return route.cluster not in self.impostors
