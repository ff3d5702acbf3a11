import pytest

from gateway.domain.errors import InvalidRequest
from gateway.domain.names import (
    MAX_CLUSTER_NAME,
    format_sni,
    format_worker_name,
    is_cluster_name,
    parse_cluster_name,
    parse_worker_ordinal,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        "a-",
        "A",
        "a.b",
        "a/b",
        "../a",
        "a`",
        "a\n",
        "é",
        "\u0663",
        "a" * (MAX_CLUSTER_NAME + 1),
    ],
)
def test_what_could_break_a_rule_or_a_path_is_no_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^cluster: must be lower-case") as raised:
        parse_cluster_name(text, field="cluster")
    assert raised.value.field == "cluster"


@pytest.mark.parametrize("text", ["a", "7", "a-b", "a--b", "a" * MAX_CLUSTER_NAME])
def test_dns_labels_are_names(text: str) -> None:
    assert parse_cluster_name(text) == text


def test_the_server_name_of_the_longest_cluster_name_is_one_label() -> None:
    sni = format_sni("a" * MAX_CLUSTER_NAME)

    assert sni.encode("idna") == sni.encode()


@pytest.mark.parametrize(
    "name",
    [
        "c1-worker-",
        "c1-worker-01",
        "c1-worker--1",
        "c1-worker-1x",
        "c1-worker-1\n",
        "c1-worker-\u0663",
        "c11-worker-1",
        "worker-1",
        "c1-worker-" + "9" * 10,
    ],
)
def test_an_outsider_has_no_ordinal(name: str) -> None:
    assert parse_worker_ordinal("c1", name) is None


def test_a_cluster_named_like_a_worker_keeps_its_own_workers() -> None:
    name = format_worker_name("c1-worker-1", 2)

    assert is_cluster_name("c1-worker-1")
    assert parse_worker_ordinal("c1-worker-1", name) == 2
    assert parse_worker_ordinal("c1", name) is None
