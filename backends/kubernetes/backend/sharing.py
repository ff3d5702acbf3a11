"""What users and groups hold, from what is seen and what was promised. Pure.

A promise is an entry in the lock object of a share: it is written by
compare-and-set before the cluster is, so that of two who ask at once the second
sees the first. What is seen of a cluster may be old, so the larger number counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.observed.worker_set import parse_worker_set
from gateway.domain.policy import Shape, Share, Usage

Holdings = Sequence[tuple[Share, Usage]]

# A cluster is created at once after its promise; whoever was cut off in between
# never comes to it again.
FORGET_MS: Final = 60_000


class Promise(Struct, frozen=True, array_like=True, gc=False):
    """What one cluster may hold; an array in JSON, since there may be thousands.

    Parameters
    ----------
    workers
        Most workers.
    made_ms
        When the cluster was promised, milliseconds since the epoch.
    shape
        Millicores and bytes of its scheduler, and of one worker; counted until
        the cluster itself is seen.
    """

    workers: int
    made_ms: int
    shape: tuple[int, int, int, int]


Promises = Mapping[str, Promise]
_DECODER: Final = msgspec.json.Decoder(dict[str, Promise])


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of clusters when a share is summed.

    Parameters
    ----------
    clusters
        All that are seen, by name.
    promises
        Of the share, by name.
    """

    clusters: Mapping[str, DaskCluster]
    promises: Promises


def parse_promises(text: str) -> dict[str, Promise]:
    """Return the promises in an annotation; what cannot be read is lost.

    Clusters that are seen count without them.
    """
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        return {}


def format_promises(promises: Promises) -> str:
    """Return the annotation for ``promises``."""
    return msgspec.json.encode(promises, order="sorted").decode()


def find_shape(cluster: DaskCluster) -> Shape:
    """Return what a cluster's pods take."""
    limits = cluster.spec.limits
    return Shape(
        limits.scheduler_cores,
        limits.scheduler_memory_bytes,
        limits.worker_cores,
        limits.worker_memory_bytes,
    )


def make_promise(shape: Shape, workers: int, now_ms: int) -> Promise:
    """Return what a cluster of ``shape`` is to be promised."""
    return Promise(
        workers,
        now_ms,
        (
            round(shape.scheduler_cores * 1000),
            shape.scheduler_memory_bytes,
            round(shape.worker_cores * 1000),
            shape.worker_memory_bytes,
        ),
    )


def is_member(share: Share, cluster: DaskCluster) -> bool:
    """Return whether a cluster counts in ``share``."""
    kind, _, name = share.key.partition(":")
    owner = cluster.spec.owner
    return name == owner.user if kind == "user" else name in owner.groups


def is_live(cluster: DaskCluster) -> bool:
    """Return whether a cluster holds anything that counts."""
    return cluster.spec.active and not cluster.status.phase.is_terminal


def find_most_workers(cluster: DaskCluster) -> int:
    """Return how many workers a cluster has or may come to have."""
    workers, cap = cluster.spec.workers, cluster.spec.limits.max_workers
    most = workers.replicas if workers.adaptive is None else workers.adaptive.maximum
    most = most if cap is None else min(most, cap)
    found = parse_worker_set(cluster.status.workers)
    # What still runs is held until it has left, whatever is wanted.
    return max(most, 0 if found is None else len(found.members))


def sum_share(share: Share, known: Known, *, without: str = "") -> Usage:
    """Return what the live clusters of a share hold.

    Parameters
    ----------
    without
        Name of a cluster to leave out.
    """
    total = Usage()
    for cluster in known.clusters.values():
        is_counted = cluster.name != without and is_live(cluster)
        if is_counted and is_member(share, cluster):
            promise = known.promises.get(cluster.name)
            promised = 0 if promise is None else promise.workers
            workers = max(find_most_workers(cluster), promised)
            total += find_shape(cluster).take(workers)
    for name, promise in known.promises.items():
        if name != without and name not in known.clusters:
            cores, memory, worker_cores, worker_memory = promise.shape
            shape = Shape(cores / 1000, memory, worker_cores / 1000, worker_memory)
            total += shape.take(promise.workers)
    return total


def list_doubtful(known: Known, now_ms: int) -> tuple[str, ...]:
    """Return names that were promised long ago and are not seen."""
    return tuple(
        name
        for name, promise in known.promises.items()
        if name not in known.clusters and now_ms - promise.made_ms > FORGET_MS
    )


def keep_promises(known: Known, absent: Iterable[str] = ()) -> dict[str, Promise]:
    """Return the promises that still hold.

    A cluster that was seen to have ended never comes back, however old the view
    is. One that is not seen may not be seen yet.

    Parameters
    ----------
    absent
        Names of which the API server itself said that there is no such cluster.
    """
    gone = set(absent)
    return {
        name: promise
        for name, promise in known.promises.items()
        if name not in gone
        and (name not in known.clusters or is_live(known.clusters[name]))
    }
