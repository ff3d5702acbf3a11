import pytest

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
from gateway.domain.user import User

GIB = 2**30
SHAPE = Shape(
    scheduler_cores=1,
    scheduler_memory_bytes=2 * GIB,
    worker_cores=2,
    worker_memory_bytes=4 * GIB,
)
ALICE = User("alice", groups=["lab", "staff", "choir"])


def share(key: str = "user:alice", **caps) -> Share:
    return Share(key, Caps(**caps))


def test_a_user_without_any_cap_has_no_share() -> None:
    assert Policy().shares(ALICE) == ()


def test_a_named_user_has_their_own_caps_instead_of_the_default() -> None:
    policy = Policy(default=Caps(clusters=1), users={"alice": Caps(clusters=9)})

    assert policy.shares(ALICE) == (share(clusters=9),)
    assert policy.shares(User("bob")) == (share("user:bob", clusters=1),)


def test_a_named_user_may_be_free_of_caps() -> None:
    policy = Policy(default=Caps(clusters=1), users={"alice": Caps()})

    assert policy.shares(ALICE) == ()


def test_all_groups_with_caps_count_in_one_order_for_everybody() -> None:
    caps = Caps(workers=5)
    policy = Policy(caps, groups={"staff": caps, "lab": caps, "others": caps})

    keys = [share.key for share in policy.shares(ALICE)]

    assert keys == ["group:lab", "group:staff", "user:alice"]


@pytest.mark.parametrize(
    ("caps", "held", "want"),
    [
        pytest.param(
            {"clusters": 3},
            Usage(clusters=3),
            "user 'alice' may use at most 3 clusters, holds 3 and asks for 1 more",
            id="clusters",
        ),
        pytest.param(
            {"cores": 4},
            Usage(cores=3.5),
            "user 'alice' may use at most 4 cores, holds 3.5 and asks for 1 more",
            id="cores",
        ),
        pytest.param(
            {"memory_bytes": 3 * GIB},
            Usage(memory_bytes=3 * GIB // 2),
            "user 'alice' may use at most 3 GiB, holds 1.5 and asks for 2 more",
            id="memory",
        ),
    ],
)
def test_a_cluster_that_does_not_fit_is_refused_with_the_numbers(
    caps, held: Usage, want: str
) -> None:
    with pytest.raises(LimitExceeded, match=want):
        check_create(SHAPE, [(share(**caps), held)])


def test_the_group_that_is_full_is_named() -> None:
    full = (share("group:lab", clusters=1), Usage(clusters=1))

    with pytest.raises(LimitExceeded, match="group 'lab' may use"):
        check_create(SHAPE, [(share(clusters=9), Usage()), full])


def test_a_cluster_that_just_fits_is_accepted() -> None:
    caps = share(clusters=3, workers=0, cores=0.3, memory_bytes=4 * GIB)
    held = Usage(clusters=2, cores=0.2, memory_bytes=2 * GIB)
    tenth = Shape(0.1, 2 * GIB, 1, GIB)  # 0.2 + 0.1 is above 0.3 in floats

    check_create(tenth, [(caps, held)])


@pytest.mark.parametrize(
    ("caps", "held", "want"),
    [
        pytest.param({"clusters": 1}, Usage(), None, id="no-cap-on-workers"),
        pytest.param({"workers": 9}, Usage(workers=4), 5, id="workers"),
        pytest.param({"cores": 8}, Usage(cores=2), 2, id="cores-less-the-scheduler"),
        pytest.param(
            {"memory_bytes": 14 * GIB}, Usage(memory_bytes=4 * GIB), 2, id="memory"
        ),
        pytest.param({"workers": 3}, Usage(workers=4), 0, id="already-above"),
        pytest.param({"workers": 9, "cores": 6}, Usage(), 2, id="the-lowest"),
    ],
)
def test_room_is_what_the_caps_leave(caps, held: Usage, want: int | None) -> None:
    room, key = room_for_workers(SHAPE, [(share(**caps), held)])

    assert room == want
    assert key == ("user 'alice'" if want is not None else "")


def test_workers_that_take_nothing_are_not_limited_by_it() -> None:
    free = Shape(1, GIB, 0, 0)

    assert (
        room_for_workers(free, [(share(cores=1, memory_bytes=1), Usage())])[0] is None
    )


def test_of_several_shares_the_tightest_is_named() -> None:
    shares = [
        (share(workers=9), Usage()),
        (share("group:lab", workers=5), Usage(workers=4)),
    ]

    assert room_for_workers(SHAPE, shares) == (1, "group 'lab'")
