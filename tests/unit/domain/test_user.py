from gateway.domain.user import User


def test_users_are_equal_by_name_groups_and_role() -> None:
    assert User("alice", ["a", "b"]) == User("alice", ("b", "a"))
    assert len({User("alice", ["a"]), User("alice", {"a"})}) == 1
    assert User("alice") != User("alice", admin=True)
    assert User("alice") != "alice"


def test_a_user_may_use_what_is_theirs_and_an_admin_anything() -> None:
    assert User("alice").may_use("alice")
    assert not User("alice").may_use("bob")
    assert User("root", admin=True).may_use("bob")


def test_a_printed_user_is_the_same_whatever_the_order_of_groups() -> None:
    want = "User(name='alice', groups=['a', 'b'], admin=False)"

    assert repr(User("alice", ["b", "a"])) == want
