"""A cache of views by name and by cluster, with our own writes laid over it."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from backends.kubernetes.observed.overlay import Overlay, View

V = TypeVar("V", bound=View)
_Key = tuple[str, str]


class Cache(Generic[V]):
    """What an informer has seen; its readers see our own writes too."""

    def __init__(self) -> None:
        self._views: dict[_Key, V] = {}
        self._by_cluster: dict[str, dict[_Key, V]] = {}
        self._overlay: Overlay[V] = Overlay()

    def __len__(self) -> int:
        """Return how many objects the informer has seen."""
        return len(self._views)

    def __iter__(self) -> Iterator[V]:
        """Iterate over what the informer has seen, without our writes."""
        return iter(self._views.values())

    @property
    def version(self) -> int:
        """Newest ``resourceVersion`` up to which the informer has seen all."""
        return self._overlay.version

    def find(self, namespace: str, name: str) -> V | None:
        """Return what the informer has seen under a name."""
        return self._views.get((namespace, name))

    def of_cluster(self, cluster: str) -> tuple[V, ...]:
        """Return the objects of a cluster, our own writes laid over."""
        cached = self._by_cluster.get(cluster, {})
        return self._overlay.lay_over(cached.values(), cluster=cluster)

    def record(self, view: V) -> None:
        """Remember the server's answer to a write of ours."""
        self._overlay.record(view)

    def put(self, view: V) -> None:
        """Take a new or changed object."""
        key = (view.namespace, view.name)
        old = self._views.get(key)
        if old is not None and old.cluster != view.cluster:
            self.remove(old)
        self._views[key] = view
        self._by_cluster.setdefault(view.cluster, {})[key] = view

    def remove(self, view: V) -> None:
        """Take the end of an object."""
        key, cluster = (view.namespace, view.name), view.cluster
        self._views.pop(key, None)
        of_cluster = self._by_cluster.get(cluster, {})
        of_cluster.pop(key, None)
        if not of_cluster:
            self._by_cluster.pop(cluster, None)

    def replace(self, views: dict[_Key, V]) -> None:
        """Take a whole list."""
        self._views, self._by_cluster = {}, {}
        for view in views.values():
            self.put(view)

    def reached(self, resource_version: int) -> None:
        """Note that the informer has seen all up to this version."""
        self._overlay.reached(resource_version)
