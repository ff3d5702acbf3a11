"""Whatever JSON holds: options are accepted and stay themselves, or are refused."""

import json
import math

from hypothesis import event, given
from hypothesis import strategies as st

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
from gateway.domain.quantities import (
    format_memory,
    format_millicores,
    parse_cores,
    parse_memory,
)
from gateway.domain.user import User

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
OPTIONS = Options(
    Integer("n", 1, min=0, max=10),
    Float("x", 1.5, min=-1, max=1e9),
    String("s"),
    Bool("b"),
    Select("p", ["one", ("two", {"cores": 2})]),
    Mapping("m", {"k": "v"}),
    handler=lambda options, _user: {"environment": dict(options.m)},
)
FIELDS = ("n", "x", "s", "b", "p", "m", "unknown")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON) | JSON)
def test_a_request_is_accepted_with_valid_values_or_refused(request) -> None:
    try:
        chosen = OPTIONS.parse_options(request)
    except RefusedOptions as error:
        event("refused")
        text = str(error)
    else:
        text = "accepted"
    assert 0 < len(text) < 2000
    if text != "accepted":
        return
    assert list(chosen) == [field.field for field in OPTIONS.fields]
    assert type(chosen["n"]) is int
    assert 0 <= chosen["n"] <= 10
    assert math.isfinite(chosen["x"])
    assert chosen["p"] in {"one", "two"}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "n": st.integers(0, 10),
            "x": st.floats(-1, 1e9) | st.integers(-1, 10**9),
            "s": st.text(),
            "b": st.booleans(),
            "p": st.sampled_from(["one", "two"]),
            "m": st.dictionaries(st.text(), st.text()),
        },
    )
)
def test_accepted_options_are_accepted_again_and_unchanged(request) -> None:
    chosen = OPTIONS.parse_options(request)
    once = json.loads(json.dumps(chosen))

    again = OPTIONS.parse_options(once)

    assert again == chosen
    assert {k: chosen[k] for k in request} == request
    OPTIONS.get_configuration(again, User("alice"))
    assert again == chosen


@given(st.integers(0, 2**63 - 1))
def test_bytes_are_themselves_as_number_and_as_text(number: int) -> None:
    assert parse_memory(number) == number
    # A text goes through a float, as the peer's does: 53 bits of it are exact.
    assert abs(parse_memory(str(number % 2**53)) - number % 2**53) == 0


@given(st.integers(0, 2**13), st.sampled_from(["K", "M", "G", "T"]))
def test_whole_units_are_read_back_from_what_was_written(count, unit) -> None:
    number = parse_memory(f"{count} {unit}")

    assert parse_memory(f"{count}.0 {unit}iB") == number
    assert abs(parse_memory(format_memory(number)) - number) <= number * 0.005


@given(st.text())
def test_no_text_makes_a_quantity_fail_otherwise_than_by_refusal(text) -> None:
    for parse in (parse_memory, parse_cores):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert found >= 0


@given(st.integers(0, 10**9))
def test_thousandths_of_cores_survive(thousandths: int) -> None:
    cores = parse_cores(f"{thousandths}m")

    assert format_millicores(cores) == f"{thousandths}m"
    assert parse_cores(cores) == cores
