"""Remember our own writes until the informer has caught up with them.

An informer's cache lags behind the API server. The overlay holds the server's
answers to our writes and lays them over the cache, so that a plan does not ask
again for what was just done. It saves calls; nothing depends on it.
"""

import heapq
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class View(Protocol):
    """What the overlay needs to know of an object."""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``."""
        ...

    @property
    def name(self) -> str:
        """``metadata.name``."""
        ...

    @property
    def cluster(self) -> str:
        """Name of the ``DaskCluster`` that it belongs to."""
        ...

    @property
    def resource_version(self) -> str:
        """``metadata.resourceVersion``."""
        ...


V = TypeVar("V", bound=View)
_Key = tuple[str, str]


class Overlay(Generic[V]):
    """Objects of one kind that we wrote, and the informer has not reached yet.

    Notes
    -----
    Versions of one resource type compare as integers, and a watch delivers in
    their order (KEP-5504: Comparable Resource Version).

    Examples
    --------
    >>> from backends.kubernetes.observed.services import ServiceView
    >>> made = ServiceView(
    ...     namespace="team", name="dask-c", uid="u", resource_version="10", cluster="c"
    ... )
    >>> overlay = Overlay()
    >>> overlay.record(made)
    >>> overlay.lay_over([], cluster="c") == (made,)
    True
    >>> overlay.reached(10)
    >>> overlay.version, overlay.lay_over([], cluster="c")
    (10, ())
    """

    def __init__(self) -> None:
        self._written: dict[str, dict[_Key, V]] = {}
        self._order: list[tuple[int, str, _Key]] = []
        self._reached = 0

    @property
    def version(self) -> int:
        """Newest version that the cache is known to have."""
        return self._reached

    def record(self, view: V) -> None:
        """Remember ``view``, the server's answer to our write.

        An answer that comes after its own watch event is no news.
        """
        version = int(view.resource_version)
        if version <= self._reached:
            return
        key = (view.namespace, view.name)
        self._written.setdefault(view.cluster, {})[key] = view
        heapq.heappush(self._order, (version, view.cluster, key))

    def reached(self, resource_version: int) -> None:
        """Forget writes up to ``resource_version``, which the cache now has.

        Parameters
        ----------
        resource_version
            Version of a watch event, a bookmark or a list.
        """
        self._reached = max(self._reached, resource_version)
        while self._order and self._order[0][0] <= self._reached:
            version, cluster, key = heapq.heappop(self._order)
            written = self._written.get(cluster, {})
            view = written.get(key)
            if view is not None and int(view.resource_version) == version:
                del written[key]
                if not written:
                    del self._written[cluster]

    def lay_over(self, cached: Iterable[V], *, cluster: str) -> tuple[V, ...]:
        """Return ``cached``, all of ``cluster``, with our writes laid over it."""
        written = self._written.get(cluster)
        if not written:
            return tuple(cached)
        return tuple({**{(v.namespace, v.name): v for v in cached}, **written}.values())
