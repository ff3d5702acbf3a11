"""Clusters, users and requests for tests, with what does not matter filled in."""

import base64
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gateway.domain.cluster import Cluster, Limits, PublicStatus
from gateway.domain.credentials import KeyPair
from gateway.domain.user import User

ALICE = User("alice", ["lab"])
BOB = User("bob")
ROOT = User("root", admin=True)
KEYS = KeyPair("CERTIFICATE of the client\n", "KEY of the client\n")


@dataclass
class FakeClock:
    """A clock that stands until it is moved; implements `gateway.ports.Clock`."""

    time: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    steady: float = 1000.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.steady += seconds


@dataclass(frozen=True)
class ClusterBuilder:
    """Reads like a sentence: ``a_cluster("c1").of("bob").running().build()``."""

    cluster: Cluster

    def of(self, owner: str) -> "ClusterBuilder":
        return self._with(owner=owner)

    def running(self, *, dashboard: bool = True) -> "ClusterBuilder":
        return self._with(
            status=PublicStatus.RUNNING, has_dashboard=dashboard, client=KEYS
        )

    def stopped(self, stop_ms: int = 2000) -> "ClusterBuilder":
        return self._with(status=PublicStatus.STOPPED, stop_ms=stop_ms)

    def failed(self, reason: str, message: str, *lines: str) -> "ClusterBuilder":
        return self._with(
            status=PublicStatus.FAILED,
            stop_ms=2000,
            reason=reason,
            message=message,
            log_tail=lines,
        )

    def with_options(self, **options: object) -> "ClusterBuilder":
        return self._with(options=options)

    def with_limit(self, max_workers: int) -> "ClusterBuilder":
        return self._with(limits=Limits(max_workers))

    def build(self) -> Cluster:
        return self.cluster

    def _with(self, **changes: object) -> "ClusterBuilder":
        return ClusterBuilder(replace(self.cluster, **changes))


def a_cluster(name: str = "c1", *, version: int = 1) -> ClusterBuilder:
    """Return a builder of a PENDING cluster of alice."""
    return ClusterBuilder(
        Cluster(
            name=name,
            owner="alice",
            status=PublicStatus.PENDING,
            version=version,
            start_ms=1000,
        )
    )


def basic(name: str, password: str = "", encoding: str = "utf-8") -> dict[str, str]:
    """Return the headers by which ``name`` logs in."""
    raw = f"{name}:{password}".encode(encoding)
    return {"Authorization": f"Basic {base64.b64encode(raw).decode()}"}


def token(value: str) -> dict[str, str]:
    """Return the headers by which a cluster shows its token."""
    return {"Authorization": f"token {value}"}
