"""Prove that a cluster's own scheduler answers at the public port."""

from dataclasses import replace

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.controller.observer import Round
from backends.kubernetes.credentials import ensure_credentials
from backends.kubernetes.planning.plan import wants_route_proof
from backends.routing.probe import prove_tls
from gateway.config.traits import parse_address
from gateway.domain.names import format_sni
from gateway.ports import Clock

_TIMEOUT_S = 2.0


class RouteProver:
    """Asks the public port, once a cluster is ready for it.

    Parameters
    ----------
    address
        ``host:port``; "" takes all routes for proved.
    """

    def __init__(
        self, client: KubeClient, address: str, *, instance: str, clock: Clock
    ) -> None:
        self._client = client
        self._address = address
        self._instance = instance
        self._clock = clock

    async def prove(self, seen: Round) -> Round:
        """Return ``seen``, with whether the cluster's CA answered just now."""
        if not wants_route_proof(seen.desired, seen.observed):
            return seen
        is_proved = not self._address or await self._ask(seen)
        return replace(seen, observed=replace(seen.observed, route_proved=is_proved))

    async def _ask(self, seen: Round) -> bool:
        if seen.memory.ca is None:
            credentials = await ensure_credentials(
                self._client, seen.cluster, instance=self._instance, clock=self._clock
            )
            seen.memory.ca = credentials.ca_certificate
        host, port = parse_address(self._address)
        return await prove_tls(
            host,
            port,
            server_name=format_sni(seen.cluster.name),
            ca_certificate=seen.memory.ca,
            timeout_s=_TIMEOUT_S,
        )
