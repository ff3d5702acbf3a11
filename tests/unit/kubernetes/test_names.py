"""Names that objects get, and those that a cluster may have."""

import pytest

from backends.kubernetes.names import (
    MAX_NAME,
    Child,
    escape_label,
    format_anchor_name,
    format_credentials_name,
    format_plugin_name,
    format_scheduler_name,
    is_namespace,
    is_object_name,
)
from gateway.domain.names import format_sni, format_worker_name, is_cluster_name

LONGEST = "c" * MAX_NAME
UID = "6f1c1c1e-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    "name",
    [
        format_anchor_name(LONGEST),
        format_scheduler_name(LONGEST),
        format_credentials_name(UID, 999),
        format_plugin_name("content"),
        format_worker_name(LONGEST, 999_999_999),
        format_sni(LONGEST),
    ],
)
def test_the_longest_name_still_fits_into_a_label(name: str) -> None:
    assert len(name) <= 63


@pytest.mark.parametrize(
    "name", ["", "0c", "-c", "c-", "C", "c_1", "c.d", "c/../x", "c\n", "c" * 47]
)
def test_names_that_no_service_can_have_are_none_of_ours(name: str) -> None:
    assert not is_object_name(name)


@pytest.mark.parametrize("name", ["c", LONGEST, "c0-1"])
def test_each_name_that_we_accept_is_one_that_the_core_accepts(name: str) -> None:
    assert is_object_name(name)
    assert is_cluster_name(name)


@pytest.mark.parametrize("name", ["", "a/b", "A", "a" * 64, "a\n", "..", "-a"])
def test_text_that_would_leave_a_url_is_no_namespace(name: str) -> None:
    assert not is_namespace(name)


@pytest.mark.parametrize("name", ["default", "0", "team-a"])
def test_namespaces_may_begin_with_a_digit(name: str) -> None:
    assert is_namespace(name)


@pytest.mark.parametrize(
    "text", ["a@b.co", "x_y.", "-lead", "u" * 70, "Ωmega", "…", "a b", "a/b"]
)
def test_any_user_name_becomes_a_stable_label_of_its_own(text: str) -> None:
    """users.md row 31."""
    label = escape_label(text)

    assert label == escape_label(label) == escape_label(text)
    assert 0 < len(label) <= 63
    assert label != escape_label(text + "!")


def test_a_name_that_is_a_label_stays_as_it_is() -> None:
    assert escape_label("alice.b-c_d") == "alice.b-c_d"


def test_routes_are_the_children_that_one_mode_alone_has() -> None:
    assert [child for child in Child if child.is_route] == [
        Child.ROUTE_HTTP,
        Child.ROUTE_TCP,
    ]
