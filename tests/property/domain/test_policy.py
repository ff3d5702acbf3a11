from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.errors import LimitExceeded
from gateway.domain.policy import (
    Caps,
    Policy,
    Shape,
    Share,
    Usage,
    check_create,
    room_for_workers,
)
from gateway.domain.scaling import to_thousandths
from gateway.domain.user import User

cores = st.integers(0, 64_000).map(lambda n: n / 1000)
memory = st.integers(0, 2**40)
shapes = st.builds(Shape, cores, memory, cores, memory)
caps = st.builds(
    Caps,
    clusters=st.none() | st.integers(0, 9),
    workers=st.none() | st.integers(0, 99),
    cores=st.none() | cores,
    memory_bytes=st.none() | memory,
)
names = st.sampled_from(["alice", "bob", "lab", "staff"])


def total(clusters: list[tuple[Shape, int]]) -> Usage:
    return sum((shape.take(n) for shape, n in clusters), Usage())


def exceeds(usage: Usage, caps: Caps) -> bool:
    pairs = (
        (usage.clusters, caps.clusters),
        (usage.workers, caps.workers),
        (usage.cores, caps.cores),
        (usage.memory_bytes, caps.memory_bytes),
    )
    return any(
        c is not None and to_thousandths(u) > to_thousandths(c) for u, c in pairs
    )


@given(caps, st.lists(st.tuples(shapes, st.integers(0, 99)), max_size=12))
def test_however_many_ask_the_sum_stays_under_the_caps(caps, asked) -> None:
    share = Share("user:alice", caps)
    held: list[tuple[Shape, int]] = []
    for shape, workers in asked:
        others = [(share, total(held))]
        try:
            check_create(shape, others)
        except LimitExceeded:
            continue
        room, _ = room_for_workers(shape, others)
        held.append((shape, workers if room is None else min(room, workers)))

    assert not exceeds(total(held), caps)


@given(shapes, caps, st.integers(0, 20))
def test_one_worker_more_than_the_room_is_one_too_many(shape, caps, others) -> None:
    share = Share("user:alice", caps)
    held = Usage(clusters=0, workers=others)

    room, _ = room_for_workers(shape, [(share, held)])

    if room is not None:
        assert exceeds(held + shape.take(room + 1), caps)


@given(shapes, caps, st.lists(st.tuples(shapes, st.integers(0, 20)), max_size=5))
def test_a_refusal_is_never_without_a_cause(shape, caps, held) -> None:
    share = Share("user:alice", caps)
    usage = total(held)

    try:
        check_create(shape, [(share, usage)])
    except LimitExceeded:
        assert exceeds(usage + shape.take(0), caps)
    else:
        # What a new cluster cannot change is no reason to refuse it.
        assert not exceeds(
            usage + shape.take(0),
            Caps(caps.clusters, None, caps.cores, caps.memory_bytes),
        )


@given(
    caps,
    st.dictionaries(names, caps),
    st.dictionaries(names, caps),
    st.lists(st.builds(User, names, st.sets(names)), min_size=1),
)
def test_everybody_takes_locks_in_the_same_order(
    default, users, groups, people
) -> None:
    policy = Policy(default, users, groups)

    for person in people:
        keys = [share.key for share in policy.shares(person)]
        assert keys == sorted(set(keys))
