from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.errors import InvalidRequest
from gateway.domain.names import (
    format_sni,
    format_worker_name,
    is_cluster_name,
    parse_cluster_name,
    parse_worker_ordinal,
)

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?", fullmatch=True)


@given(names, st.integers(0, 10**9 - 1))
def test_a_workers_name_tells_its_ordinal(cluster, ordinal) -> None:
    assert (
        parse_worker_ordinal(cluster, format_worker_name(cluster, ordinal)) == ordinal
    )


@given(names, names, st.integers(0, 99))
def test_no_worker_belongs_to_two_clusters(one, other, ordinal) -> None:
    name = format_worker_name(one, ordinal)

    assert one == other or parse_worker_ordinal(other, name) is None


@given(names, st.text())
def test_whatever_has_an_ordinal_is_spelled_as_we_spell_it(cluster, name) -> None:
    ordinal = parse_worker_ordinal(cluster, name)

    assert ordinal is None or name == format_worker_name(cluster, ordinal)


@given(st.text(max_size=60) | names)
def test_a_name_is_refused_or_safe_wherever_it_is_put(text) -> None:
    try:
        parse_cluster_name(text)
    except InvalidRequest:
        assert not is_cluster_name(text)
    else:
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(format_sni(text)) <= 63
