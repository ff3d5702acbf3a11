"""The informers of one controller, and the keys that their changes wake."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.informer import Informer, Scope
from backends.kubernetes.api.resources import CLUSTERS, NAMESPACES, PODS, SERVICES
from backends.kubernetes.crd.parsing import parse_dask_cluster
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import LABEL_INSTANCE
from backends.kubernetes.observed.namespaces import NamespaceView, parse_namespace
from backends.kubernetes.observed.overlay import View
from backends.kubernetes.observed.pods import PodView, parse_pod
from backends.kubernetes.observed.services import ServiceView, parse_service
from gateway.aio.tasks import Supervisor
from gateway.ports import Clock


class Caches:
    """What the controller sees: clusters here, pods and anchors where they go.

    Parameters
    ----------
    client
        In the gateway's namespace.
    namespaces
        Of pods; empty is all.
    selector
        Labels of namespaces that are served; "" is any.
    instance
        Of this gateway: only what has its label is looked at.
    wake
        Called with the name of a cluster of which something changed.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespaces: tuple[str, ...],
        selector: str = "",
        instance: str,
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._clock = clock
        self._wake = wake
        labels = f"{LABEL_INSTANCE}={instance}"
        self.clusters = self._make(
            Scope(CLUSTERS, client.namespace), parse_dask_cluster
        )
        places: tuple[str | None, ...] = namespaces or (None,)
        self._pods: dict[str | None, Informer[PodView]] = {
            place: self._make(Scope(PODS, place, labels), parse_pod) for place in places
        }
        self._services: dict[str | None, Informer[ServiceView]] = {
            place: self._make(Scope(SERVICES, place, labels), parse_service)
            for place in places
        }
        self._served: Informer[NamespaceView] | None = None
        if selector:
            scope = Scope(NAMESPACES, None, selector)
            self._served = self._make(scope, parse_namespace)

    def __iter__(self) -> Iterator[Informer[Any]]:
        """Iterate over all informers."""
        yield self.clusters
        yield from self._pods.values()
        yield from self._services.values()
        if self._served is not None:
            yield self._served

    def start(self, tasks: Supervisor) -> None:
        """Let all of them run."""
        for informer in self:
            scope = informer.scope
            where = scope.namespace or "all"
            tasks.start(f"informer {scope.resource.plural} {where}", informer.run)

    async def wait_synced(self) -> None:
        """Return once all of them were whole, but for namespaces that are refused.

        What is wrong in one namespace must not keep the clusters of all others
        from being looked after.
        """
        await self.clusters.synced.wait()
        await asyncio.gather(*(informer.answered.wait() for informer in self))

    @property
    def is_whole(self) -> bool:
        """Whether all that this account may look at was seen."""
        return self.clusters.is_synced and all(i.answered.is_set() for i in self)

    def find_denial(self, namespace: str) -> str:
        """Return why nothing can be seen of a served namespace; "" if all can."""
        followed = (
            self._find(self._pods, namespace),
            self._find(self._services, namespace),
            self._served,
        )
        return next((i.denied for i in followed if i is not None and i.denied), "")

    def serves(self, namespace: str) -> bool:
        """Return whether pods may go there."""
        if self._served is not None:
            return self._served.cache.find("", namespace) is not None
        return None in self._pods or namespace in self._pods

    def find_cluster(self, name: str) -> DaskCluster | None:
        """Return a cluster, with what we wrote of it ourselves."""
        return next(iter(self.clusters.cache.of_cluster(name)), None)

    def anchors_of(self, cluster: str) -> tuple[ServiceView, ...]:
        """Return Services with this cluster's label, wherever they are."""
        return tuple(
            view
            for informer in self._services.values()
            for view in informer.cache.of_cluster(cluster)
        )

    def pods_of(self, cluster: str, namespace: str) -> tuple[PodView, ...]:
        """Return pods with this cluster's label in one namespace."""
        informer = self._find(self._pods, namespace)
        found = informer.cache.of_cluster(cluster) if informer else ()
        return tuple(pod for pod in found if pod.namespace == namespace)

    def record_pod(self, pod: PodView) -> None:
        """Remember the answer to a write of a pod."""
        informer = self._find(self._pods, pod.namespace)
        if informer is not None:
            informer.cache.record(pod)

    def record_service(self, service: ServiceView) -> None:
        """Remember the answer to a write of an anchor."""
        informer = self._find(self._services, service.namespace)
        if informer is not None:
            informer.cache.record(service)

    def list_names(self) -> set[str]:
        """Return the names of all clusters, and of those that anchors are left of."""
        names = {cluster.name for cluster in self.clusters.cache}
        for informer in self._services.values():
            names |= {view.cluster for view in informer.cache if view.cluster}
        return names

    def _make(self, scope: Scope, decode: Callable[[bytes], Any]) -> Informer[Any]:
        return Informer(
            self._client,
            scope,
            decode=decode,
            on_change=self._note,
            on_access=partial(self._note_access, scope.namespace),
            clock=self._clock,
        )

    def _note_access(self, place: str | None) -> None:
        # What is said of its clusters changes, also of those that have nothing there.
        self._wake_all(place)

    def _wake_all(self, place: str | None) -> None:
        for cluster in self.clusters.cache:
            if place in (None, cluster.spec.target_namespace):
                self._wake(cluster.name)

    def _note(self, view: View) -> None:
        if isinstance(view, NamespaceView):
            self._wake_all(view.name)
        elif view.cluster:
            self._wake(view.cluster)

    @staticmethod
    def _find(informers: dict[str | None, Any], namespace: str) -> Any:  # noqa: ANN401 - of either kind
        return informers.get(namespace) or informers.get(None)
