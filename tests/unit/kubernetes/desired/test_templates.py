"""What a layer does to what is under it."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kubernetes.crd.quantities import parse_quantity
from backends.kubernetes.desired.templates import LIST_KEYS, lay
from gateway.domain.errors import InvalidRequest


def named(*names, **more):
    return [{"name": name, **more} for name in names]


@pytest.mark.parametrize(
    ("base", "layer", "want"),
    [
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="a value"),
        pytest.param({"a": 1}, {"a": None}, {"a": 1}, id="null changes nothing"),
        pytest.param({}, {"a": {"b": None}}, {"a": {}}, id="null within"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="map"
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a list without a key is replaced",
        ),
        pytest.param(
            {"containers": [{"name": "a", "env": named("X", value="1")}]},
            {
                "containers": [
                    {"name": "b"},
                    {"name": "a", "env": named("Y", value="2")},
                ]
            },
            {
                "containers": [
                    {
                        "name": "a",
                        "env": [*named("X", value="1"), *named("Y", value="2")],
                    },
                    {"name": "b"},
                ]
            },
            id="items with a key are merged, new ones behind",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
            {
                "ports": [
                    {"containerPort": 1, "name": "x"},
                    {"containerPort": 1, "protocol": "UDP"},
                ]
            },
            {
                "ports": [
                    {"containerPort": 1, "protocol": "TCP", "name": "x"},
                    {"containerPort": 1, "protocol": "UDP"},
                ]
            },
            id="two keys, one with a default",
        ),
    ],
)
def test_layers(base, layer, want) -> None:
    kept = copy.deepcopy((base, layer))

    assert lay(base, layer) == want
    assert (base, layer) == kept


@pytest.mark.parametrize(
    ("base", "layer", "want_path"),
    [
        pytest.param({"a": 1}, {"a": {}}, "a", id="map over a value"),
        pytest.param({"a": {}}, {"a": 1}, "a", id="value over a map"),
        pytest.param({"a": {}}, {"a": []}, "a", id="list over a map"),
        pytest.param({"a": []}, {"a": "x"}, "a", id="text over a list"),
        pytest.param({"a": "x"}, {"a": []}, "a", id="list over a text"),
        pytest.param({}, {"env": [7]}, "env", id="no map in a keyed list"),
        pytest.param({}, {"env": [{"value": "x"}]}, "env", id="no name"),
        pytest.param(
            {"containers": named("a", env=[])},
            {"containers": named("a", env={"X": "1"})},
            "containers[a].env",
            id="deep",
        ),
    ],
)
def test_layers_that_do_not_fit_are_refused_with_their_path(
    base, layer, want_path
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lay(base, layer)

    assert refused.value.field == want_path


names = st.sampled_from(["a", "b"])
env = st.lists(
    st.builds(lambda n, v: {"name": n, "value": v}, names, names),
    max_size=2,
    unique_by=lambda item: item["name"],
)
trees = st.fixed_dictionaries(
    {},
    optional={
        "x": st.integers(0, 2),
        "map": st.dictionaries(names, st.integers(0, 2)),
        "args": st.lists(names, max_size=2),
        "env": env,
    },
)


@given(trees, trees)
def test_a_layer_twice_is_a_layer_once(base, layer) -> None:
    once = lay(base, layer)

    assert lay(once, layer) == once


@given(trees, trees, trees)
def test_layers_can_be_laid_together_first(base, lower, upper) -> None:
    # So a configuration can travel in a cluster's template and lie there as well.
    one = lay(lay(base, lower), upper)

    assert one == lay(base, lay(lower, upper))


def test_the_keys_are_those_of_kubernetes_own_schema() -> None:
    # The CRD has them from the API server; test_crd proves that it is the server's.
    assert LIST_KEYS["volumeMounts"] == ("mountPath",)
    assert LIST_KEYS["ports"] == ("containerPort", "protocol")


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "1e1234", "0x1", None, True])
def test_what_is_no_quantity_is_refused(text) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("2E", 2 * 10**18),
        ("1e3", 1000),
        ("5k", 5000),
    ],
)
def test_quantities(text, want) -> None:
    assert parse_quantity(text) == want
