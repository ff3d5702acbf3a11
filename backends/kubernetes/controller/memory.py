"""What one controller process remembers of its clusters between two rounds.

Nothing depends on it for correctness: a new process begins with none of it, asks
again for what is not in caches, and comes to the same end.
"""

from dataclasses import dataclass, field
from datetime import datetime

from backends.kubernetes.crd.values import Problem
from backends.kubernetes.names import Child
from backends.kubernetes.planning.inputs import Refusal
from backends.kubernetes.planning.orphans import Sightings


@dataclass(slots=True)
class ClusterMemory:
    """Of one ``DaskCluster``, or of what one has left behind.

    Parameters
    ----------
    uid
        Of the cluster that it is about.
    asked, words
        When Events of a pod were last read, and the warning among them, by uid.
    deleted
        Uids of what this process has deleted and caches may still show.
    checked
        Generation whose spec was checked, and why it is refused.
    ca
        Certificate of the cluster's authority.
    unsettled_since
        When a status that can wait was first not written.
    create_failures
        Refused creates in a row.
    """

    uid: str
    made: set[Child] = field(default_factory=set)
    absent: set[Child] = field(default_factory=set)
    refusals: dict[Child, Refusal] = field(default_factory=dict)
    worker_refusal: Refusal | None = None
    taken_ordinals: set[int] = field(default_factory=set)
    log_tails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    checked: tuple[int, Problem | None] | None = None
    ca: str | None = None
    unsettled_since: datetime | None = None
    create_failures: int = 0


@dataclass(slots=True)
class Memories:
    """By cluster's name; forgotten when a cluster is gone.

    Parameters
    ----------
    shared
        Namespace and name of what clusters share, and this process knows to exist.
    """

    shared: set[tuple[str, str]] = field(default_factory=set)
    _clusters: dict[str, ClusterMemory] = field(default_factory=dict)
    _sightings: dict[str, Sightings] = field(default_factory=dict)

    def of_cluster(self, name: str, uid: str) -> ClusterMemory:
        """Return the memory of this very cluster."""
        found = self._clusters.get(name)
        if found is None or found.uid != uid:
            found = self._clusters[name] = ClusterMemory(uid)
        return found

    def forget_cluster(self, name: str) -> None:
        """Forget a cluster that is gone."""
        self._clusters.pop(name, None)

    def forget_routes(self) -> None:
        """Forget which route objects exist: nobody follows them, and users delete."""
        self.shared.clear()
        for memory in self._clusters.values():
            memory.made -= {child for child in memory.made if child.is_route}

    def sightings(self, anchor_uid: str) -> Sightings:
        """Return when the cluster of an anchor was found gone."""
        return self._sightings.get(anchor_uid, Sightings())

    def note_sighting(self, anchor_uid: str, now: datetime, *, is_gone: bool) -> None:
        """Take note of a live look at the cluster of an anchor."""
        if not is_gone:
            self._sightings.pop(anchor_uid, None)
            return
        first = self.sightings(anchor_uid).first or now
        self._sightings[anchor_uid] = Sightings(first, now)

    def forget_anchor(self, anchor_uid: str) -> None:
        """Forget an anchor that is gone."""
        self._sightings.pop(anchor_uid, None)
