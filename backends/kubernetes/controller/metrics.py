"""Numbers of a controller for Prometheus. Labels never hold what a user wrote."""

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from backends.kubernetes.api.informer import Informer
from backends.kubernetes.controller.caches import Caches
from gateway.domain.cluster import FailureReason, StopReason

_BUCKETS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REASONS: Final = frozenset([*map(str, FailureReason), *map(str, StopReason), ""])


class Metrics:
    """The controller's own registry; a `backends.kubernetes.api.client.Meter`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._calls = Counter(
            "daskfleet_kube_calls",
            "Calls to the API server; status 0 had no answer.",
            ["verb", "resource", "status"],
            registry=registry,
        )
        self._call_duration = Histogram(
            "daskfleet_kube_call_duration_seconds",
            "Time until the answer; of a watch, its whole life.",
            ["verb", "resource"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._rounds = Histogram(
            "daskfleet_reconcile_duration_seconds",
            "Time of one look at one cluster.",
            ["outcome"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queue_wait = Histogram(
            "daskfleet_queue_wait_seconds",
            "Time from a cluster's change until it is looked at.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queue = Gauge(
            "daskfleet_queue_clusters", "Clusters to be looked at.", registry=registry
        )
        self._leading = Gauge(
            "daskfleet_leading", "1 while this process leads.", registry=registry
        )
        self._watch_age = Gauge(
            "daskfleet_watch_age_seconds",
            "Time since the API server said anything on a watch.",
            ["kind", "namespace"],
            registry=registry,
        )
        self._objects = Gauge(
            "daskfleet_watched_objects",
            "Objects in the caches.",
            ["kind", "namespace"],
            registry=registry,
        )
        self._clusters = Gauge(
            "daskfleet_clusters",
            "Clusters by phase, ended ones by why.",
            ["phase", "reason"],
            registry=registry,
        )

    def note_call(
        self, verb: str, resource: str, status: int, duration_s: float
    ) -> None:
        """Count a call to the API server."""
        self._calls.labels(verb, resource, str(status)).inc()
        self._call_duration.labels(verb, resource).observe(duration_s)

    def note_round(self, outcome: str, duration_s: float) -> None:
        """Count a look at a cluster; ``outcome`` is one of a few words."""
        self._rounds.labels(outcome).observe(duration_s)

    def note_wait(self, seconds: float) -> None:
        """Take note of how long a cluster waited for its turn."""
        self._queue_wait.observe(seconds)

    def write(self, caches: Caches, *, queued: int, is_leading: bool) -> bytes:
        """Return all numbers as text."""
        self._queue.set(queued)
        self._leading.set(is_leading)
        for informer in caches:
            self._note_informer(informer)
        self._count_clusters(caches)
        return generate_latest(self.registry)

    def _note_informer(self, informer: Informer[object]) -> None:  # type: ignore[type-var]  # of any view
        scope = informer.scope
        labels = (scope.resource.plural, scope.namespace or "*")
        self._watch_age.labels(*labels).set(informer.age_s)
        self._objects.labels(*labels).set(len(informer.cache))

    def _count_clusters(self, caches: Caches) -> None:
        found: Iterable[tuple[str, str]] = (
            (str(cluster.status.phase), _find_reason(cluster.status.reason))
            for cluster in caches.clusters.cache
        )
        self._clusters.clear()
        for labels, number in Tally(found).items():
            self._clusters.labels(*labels).set(number)


def _find_reason(reason: str) -> str:
    # Anybody with the right can write a status.
    return reason if reason in _REASONS else "other"
