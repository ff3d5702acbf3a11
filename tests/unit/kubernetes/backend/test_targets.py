"""Pods go where the admin's list allows, by name or by rule."""

import pytest

from backends.kubernetes.backend.targets import choose_namespace, find_pattern_problem
from gateway.domain.errors import InvalidRequest
from gateway.domain.user import User

ALICE = User("alice", groups=["lab", "admins"])


@pytest.mark.parametrize(
    ("pattern", "allowed", "want"),
    [
        ("dask", ["dask"], "dask"),
        ("team-{group}", ["team-*"], "team-admins"),
        ("team-{group}", ["team-lab"], "team-lab"),
        ("{user}-{group}", ["alice-lab", "other"], "alice-lab"),
        ("{user}", ["a*"], "alice"),
    ],
)
def test_a_rule_makes_a_name_that_is_allowed(pattern, allowed, want) -> None:
    assert choose_namespace(pattern, ALICE, allowed) == want


@pytest.mark.parametrize(
    ("pattern", "user", "want"),
    [
        ("kube-system", ALICE, "may not go to 'kube-system'"),
        ("team-{group}", User("bob"), "makes no name of a namespace"),
        ("{user}", User("a@b.co"), "makes no name of a namespace"),
        ("team-{group}", User("bob", groups=["x"]), "may not go to 'team-x'"),
        ("", ALICE, "makes no name of a namespace"),
    ],
)
def test_anything_else_is_refused_with_the_field(pattern, user, want) -> None:
    with pytest.raises(InvalidRequest, match=want) as caught:
        choose_namespace(pattern, user, ["dask", "team-lab"])

    assert caught.value.field == "namespace"


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("team-{group}-{user}", ""),
        ("team-{team}", "knows no {team}, only {group} and {user}"),
        ("team-{", "cannot be read: "),
    ],
)
def test_a_pattern_that_cannot_be_is_told_before_the_start(pattern, want) -> None:
    assert find_pattern_problem(pattern).startswith(want)
    assert bool(find_pattern_problem(pattern)) == bool(want)
