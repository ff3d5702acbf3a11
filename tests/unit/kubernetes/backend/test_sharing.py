"""What a share holds: what is seen, and what was promised and is not seen yet."""

from hypothesis import given
from hypothesis import strategies as st

from backends.kubernetes.backend.sharing import (
    FORGET_MS,
    Known,
    Promise,
    find_shape,
    format_promises,
    keep_promises,
    list_doubtful,
    make_promise,
    parse_promises,
    sum_share,
)
from backends.kubernetes.crd.values import (
    AdaptiveSpec,
    ClusterSpec,
    ClusterStatus,
    DaskCluster,
    LimitsSpec,
    Owner,
    WorkersSpec,
    WorkersStatus,
)
from gateway.domain.cluster import ClusterPhase
from gateway.domain.policy import Caps, Share, Usage

ALICE = Share("user:alice", Caps(clusters=3))
LAB = Share("group:lab", Caps(clusters=3))
GIB = 2**30


def cluster(
    name: str = "c1",
    user: str = "alice",
    *,
    active: bool = True,
    phase: ClusterPhase = ClusterPhase.RUNNING,
    workers: WorkersSpec | None = None,
    members: str | None = None,
    cap: int | None = None,
) -> DaskCluster:
    return DaskCluster(
        name=name,
        namespace="gateway",
        uid=name,
        resource_version="7",
        spec=ClusterSpec(
            owner=Owner(user, ("lab",)),
            active=active,
            workers=workers or WorkersSpec(replicas=2),
            limits=LimitsSpec(
                max_workers=cap,
                scheduler_cores=1,
                scheduler_memory_bytes=GIB,
                worker_cores=0.5,
                worker_memory_bytes=GIB,
            ),
        ),
        status=ClusterStatus(
            phase=phase, workers=WorkersStatus(next=99, members=members)
        ),
    )


def promise(workers: int, made_ms: int = 0) -> Promise:
    return make_promise(find_shape(cluster()), workers, made_ms)


def know(*clusters: DaskCluster, **promises: Promise) -> Known:
    return Known({c.name: c for c in clusters}, promises)


def test_live_clusters_of_the_share_are_summed() -> None:
    known = know(
        cluster("c1"),
        cluster("c2"),
        cluster("c3", "bob"),
        cluster("c4", active=False),
        cluster("c5", phase=ClusterPhase.FAILED),
    )

    assert sum_share(ALICE, known) == Usage(2, 4, 4.0, 6 * GIB)
    assert sum_share(LAB, known).clusters == 3
    assert sum_share(ALICE, known, without="c2") == Usage(1, 2, 2.0, 3 * GIB)


def test_a_cluster_counts_what_it_may_come_to() -> None:
    bounds = WorkersSpec(adaptive=AdaptiveSpec(id="a", minimum=0, maximum=9))

    def workers(found: DaskCluster) -> int:
        return sum_share(ALICE, know(found)).workers

    assert workers(cluster(workers=bounds)) == 9
    assert workers(cluster(workers=bounds, cap=5)) == 5
    assert workers(cluster(members="0-6")) == 7
    assert workers(cluster(members="nonsense")) == 2


def test_what_was_promised_counts_until_it_is_seen() -> None:
    unseen = know(cluster("c1"), c2=promise(3))

    assert sum_share(ALICE, unseen) == Usage(2, 5, 4.5, 7 * GIB)
    assert sum_share(ALICE, unseen, without="c2").clusters == 1


def test_of_an_old_view_and_a_promise_the_larger_counts() -> None:
    assert sum_share(ALICE, know(cluster(), c1=promise(5))).workers == 5
    assert sum_share(ALICE, know(cluster(), c1=promise(1))).workers == 2


def test_promises_of_the_dead_are_dropped_and_others_are_kept() -> None:
    known = know(
        cluster("c1"),
        cluster("c2", active=False),
        c1=promise(1),
        c2=promise(1),
        c3=promise(1),
        c4=promise(1),
    )

    assert set(keep_promises(known)) == {"c1", "c3", "c4"}
    assert set(keep_promises(known, ["c4"])) == {"c1", "c3"}


def test_only_what_was_promised_long_ago_and_is_not_seen_is_asked_for() -> None:
    known = know(cluster("c1"), c1=promise(1), c2=promise(1), c3=promise(1, FORGET_MS))

    assert list_doubtful(known, FORGET_MS + 1) == ("c2",)


@given(
    st.dictionaries(
        st.text("abc", min_size=1),
        st.builds(
            Promise,
            st.integers(0, 10**6),
            st.integers(0, 10**13),
            st.tuples(*[st.integers(0, 10**12)] * 4),
        ),
    )
)
def test_promises_are_read_as_they_were_written(promises) -> None:
    assert parse_promises(format_promises(promises)) == promises


def test_what_cannot_be_read_is_lost() -> None:
    assert parse_promises("nonsense") == {}
    assert parse_promises('{"c1": 3}') == {}
