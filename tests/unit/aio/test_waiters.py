from gateway.aio.waiters import Waiters


def test_who_waits_is_woken_and_nobody_else():
    waiters = Waiters()
    with (
        waiters.listen("a") as first,
        waiters.listen("a") as second,
        waiters.listen("b") as other,
    ):
        waiters.ring("a")
        assert first.is_set()
        assert second.is_set()
        assert not other.is_set()
        waiters.ring_all()
        assert other.is_set()


def test_w27_nothing_is_kept_of_who_has_gone():
    waiters = Waiters()
    for n in range(1000):
        with waiters.listen(f"name-{n}"):
            assert len(waiters) == 1
    waiters.ring("name-1")

    assert (len(waiters), waiters.names) == (0, 0)


def test_one_of_two_that_leaves_does_not_take_the_other_along():
    waiters = Waiters()
    with waiters.listen("a") as stays:
        with waiters.listen("a"):
            pass
        waiters.ring("a")

        assert stays.is_set()


def test_too_many_are_not_held():
    waiters = Waiters(most=1)
    with waiters.listen("a") as held, waiters.listen("a") as crowded:
        assert held is not None
        assert crowded is None
    assert len(waiters) == 0
