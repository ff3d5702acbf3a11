"""The stock client reads our specification, and we take what it sends."""

import json

import pytest
from dask_gateway.options import Options as StockOptions

from gateway.domain.errors import RefusedOptions
from gateway.domain.options import (
    Bool,
    Float,
    Integer,
    Mapping,
    Options,
    Select,
    String,
)

OURS = Options(
    String("image", "img:1", label="Image"),
    Bool("gpu"),
    Integer("cores", 2, min=1, max=8),
    Integer("nodes"),
    Float("memory", 4, min=1, max=64.5),
    Float("share"),
    Select("profile", ["small", ("large", {"cores": 8})], default="large"),
    Mapping("environment", {"TZ": "UTC"}),
)


def read_by_client() -> StockOptions:
    wire = json.loads(json.dumps({"cluster_options": OURS.get_specification()}))
    return StockOptions._from_spec(wire["cluster_options"])


def test_the_client_shows_our_fields_with_their_defaults() -> None:
    assert dict(read_by_client()) == {
        "image": "img:1",
        "gpu": False,
        "cores": 2,
        "nodes": 0,
        "memory": 4,
        "share": 0,
        "profile": "large",
        "environment": {"TZ": "UTC"},
    }


def test_what_the_client_sends_unchanged_are_our_defaults() -> None:
    sent = json.loads(json.dumps(dict(read_by_client())))

    assert OURS.parse_options(sent) == OURS.parse_options({})


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("image", "img:2", 3),
        ("gpu", True, "yes"),
        ("cores", 8, 9),
        ("memory", 64.5, 65.0),
        ("profile", "small", "huge"),
        ("environment", {"A": "1"}, "A=1"),
    ],
)
def test_both_sides_take_and_refuse_the_same(field, good, bad) -> None:
    options = read_by_client()
    options[field] = good

    assert OURS.parse_options(json.loads(json.dumps(dict(options))))[field] == good
    with pytest.raises((TypeError, ValueError)):
        options[field] = bad
    with pytest.raises(RefusedOptions):
        OURS.parse_options({field: bad})
