"""Numbers for Prometheus. Labels never hold what a caller sent."""

from collections import Counter as Tally

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import BackendError
from gateway.http.services import SERVICES, get_backend
from gateway.http.waits import HELD

# Several scrapers, or an impatient one, ask the store no more often.
_COUNT_EVERY_S = 15.0
_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60)
_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})


class Metrics:
    """The application's own registry, so that several may live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "daskfleet_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "daskfleet_http_request_duration_seconds",
            "Time until the answer, held calls included.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        logins = Counter(
            "daskfleet_logins",
            "Requests by how their user was known.",
            ["by"],
            registry=self.registry,
        )
        self._fresh_logins = logins.labels("credentials")
        self._known_logins = logins.labels("session")
        self._clusters = Gauge(
            "daskfleet_clusters",
            "Active clusters, as the store had them up to 15 s ago.",
            ["status"],
            registry=self.registry,
        )
        self.held = Gauge(
            "daskfleet_held_calls",
            "Calls that wait for a change.",
            registry=self.registry,
        )
        self._counted_at = float("-inf")
        # Looking a child up by its labels costs more than counting.
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def note_request(
        self, method: str, route: str, status: int, duration_s: float
    ) -> None:
        """Count a request.

        Parameters
        ----------
        route
            Template of its path, never the path.
        """
        known = method if method in _METHODS else "other"
        key = (known, route, status)
        children = self._children.get(key)
        if children is None:
            children = (
                self._requests.labels(known, route, str(status)),
                self._duration.labels(known, route),
            )
            self._children[key] = children
        count, duration = children
        count.inc()
        duration.observe(duration_s)

    def note_login(self, *, is_fresh: bool) -> None:
        """Count a user who was known by credentials, or else by a session."""
        (self._fresh_logins if is_fresh else self._known_logins).inc()

    def should_count(self, now: float) -> bool:
        """Return whether clusters were last counted too long ago."""
        if now - self._counted_at < _COUNT_EVERY_S:
            return False
        self._counted_at = now
        return True

    def set_clusters(self, counts: dict[PublicStatus, int]) -> None:
        """Set the numbers of active clusters."""
        for status in (PublicStatus.PENDING, PublicStatus.RUNNING):
            self._clusters.labels(status.value).set(counts.get(status, 0))


METRICS = web.AppKey("metrics", Metrics)


async def show_metrics(request: web.Request) -> web.Response:
    """Answer with all metrics in Prometheus' text format."""
    metrics = request.app[METRICS]
    metrics.held.set(len(request.app[HELD]))
    if metrics.should_count(request.app[SERVICES].clock.monotonic()):
        try:
            found = await get_backend(request).list_clusters()
        except BackendError:
            pass  # the other numbers matter all the more
        else:
            metrics.set_clusters(Tally(cluster.status for cluster in found))
    body = generate_latest(metrics.registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
