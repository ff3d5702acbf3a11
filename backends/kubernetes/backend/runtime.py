"""The parts of a running API server on Kubernetes, and their life."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import structlog

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import load_connection
from backends.kubernetes.api.errors import KubeError, NoNamespace
from backends.kubernetes.backend.calls import PatientCalls
from backends.kubernetes.backend.config import KubeBackendSettings
from backends.kubernetes.backend.keys import Keys
from backends.kubernetes.backend.refusals import translate_refusal
from backends.kubernetes.backend.relay import Relay
from backends.kubernetes.backend.routes import RoutesPage
from backends.kubernetes.backend.shares import Shares
from backends.kubernetes.backend.store import ClusterStore
from backends.kubernetes.controller.owners import Owners
from backends.kubernetes.controller.settings import AnchorOwner
from backends.kubernetes.desired.blueprint import OwnerRef
from gateway.aio.tasks import Supervisor
from gateway.domain.errors import Unavailable
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# Long enough for an API server that is just starting too.
_CONNECT_S: Final = 30.0


class Anchor:
    """The chart's ConfigMap in the gateway's namespace, which owns what we make.

    Parameters
    ----------
    name
        Of the ConfigMap.
    """

    def __init__(
        self, client: KubeClient, calls: PatientCalls, name: str, clock: Clock
    ) -> None:
        self._owners = Owners(client, AnchorOwner(name), clock)
        self._place = client.namespace
        self._name = name
        self._calls = calls
        self._is_missed = False

    async def find(self) -> OwnerRef | None:
        """Return the owner of new objects; ``None`` where the chart made none.

        Raises
        ------
        BackendError
            As the API server refused.
        """
        try:
            return await self._calls.make(lambda: self._owners.find(self._place))
        except NoNamespace:
            if not self._is_missed:
                self._is_missed = True
                log.warning(
                    "no anchor: what is made stays when the release is removed",
                    namespace=self._place,
                    name=self._name,
                )
            return None
        except KubeError as error:
            raise translate_refusal(error) from error


@dataclass(frozen=True, slots=True)
class Runtime:
    """All that a backend uses while it is set up."""

    client: KubeClient
    calls: PatientCalls
    store: ClusterStore
    keys: Keys = field(repr=False)
    shares: Shares
    relay: Relay
    anchor: Anchor
    routes: RoutesPage | None

    @property
    def clock(self) -> Clock:
        """The API server's time, which stands in all objects."""
        return self.client.clock

    @property
    def namespace(self) -> str:
        """The gateway's own."""
        return self.client.namespace


async def start_runtime(
    settings: KubeBackendSettings, clock: Clock, stack: AsyncExitStack
) -> Runtime:
    """Connect, and return once all clusters are known.

    Parameters
    ----------
    stack
        Ends all of it.

    Raises
    ------
    ConfigError
        If there is no API server to be found.
    Unavailable
        If it does not answer within half a minute.
    """
    connection = await load_connection(settings.kubeconfig, settings.kube_context)
    client = KubeClient(connection, clock=clock)
    # From here on it is the API server's: this machine's may be wrong.
    clock = client.clock
    stack.push_async_callback(client.close)
    calls = PatientCalls(settings.k8s_api_timeout)
    store = ClusterStore(client, calls, clock)
    relay = Relay(settings.make_relay_settings(), store.find, clock)
    stack.push_async_callback(relay.close)
    tasks = await stack.enter_async_context(Supervisor())
    store.start(tasks)
    try:
        async with asyncio.timeout(_CONNECT_S):
            await store.wait_synced()
    except TimeoutError as error:
        text = (
            f"the Kubernetes API server gave no list of clusters for {_CONNECT_S:g} s"
        )
        raise Unavailable(text) from error
    instance = settings.gateway_instance
    anchor = Anchor(client, calls, settings.anchor_name, clock)
    return Runtime(
        client=client,
        calls=calls,
        store=store,
        keys=Keys(client, calls, instance=instance, clock=clock),
        shares=Shares(
            client, calls, store, instance=instance, find_owner=anchor.find, clock=clock
        ),
        relay=relay,
        anchor=anchor,
        routes=_make_routes(settings, client, store),
    )


def _make_routes(
    settings: KubeBackendSettings, client: KubeClient, store: ClusterStore
) -> RoutesPage | None:
    if not settings.routes_token_file:
        return None
    page = RoutesPage(
        client,
        store.cache,
        lambda: store.is_synced,
        settings=settings.resolve_table(settings.proxy),
        token_file=settings.routes_token_file,
    )
    store.listeners.append(page.wake)
    return page
