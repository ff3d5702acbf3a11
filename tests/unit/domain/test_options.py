"""Contract section 6, row by row: specifications, refusals, the pipeline."""

# ruff: noqa: ARG001, ARG002, ARG005 - handlers take what the contract gives them

import asyncio
import json
import math
from typing import Any

import pytest

from gateway.domain.errors import RefusedOptions, UserError
from gateway.domain.options import (
    Bool,
    Field,
    Float,
    Integer,
    Mapping,
    Options,
    OptionValues,
    Select,
    String,
)
from gateway.domain.user import User

ALICE = User("alice", groups=["lab"])


@pytest.mark.parametrize(
    ("field", "want"),
    [
        pytest.param(
            String("f"),
            {"field": "f", "label": "f", "default": "", "spec": {"type": "string"}},
            id="string",
        ),
        pytest.param(
            Bool("f", label="A flag"),
            {
                "field": "f",
                "label": "A flag",
                "default": False,
                "spec": {"type": "bool"},
            },
            id="bool",
        ),
        pytest.param(
            Integer("f", 2, min=1, max=4),
            {
                "field": "f",
                "label": "f",
                "default": 2,
                "spec": {"type": "int", "min": 1, "max": 4},
            },
            id="integer",
        ),
        pytest.param(
            Integer("f"),
            {
                "field": "f",
                "label": "f",
                "default": 0,
                "spec": {"type": "int", "min": None, "max": None},
            },
            id="integer without bounds",
        ),
        pytest.param(
            Float("f", 1, 1, 8),
            {
                "field": "f",
                "label": "f",
                "default": 1,
                "spec": {"type": "float", "min": 1.0, "max": 8.0},
            },
            id="float",
        ),
        pytest.param(
            Select("f", ["small", ("large", {"cores": 8})]),
            {
                "field": "f",
                "label": "f",
                "default": "small",
                "spec": {"type": "select", "options": ["small", "large"]},
            },
            id="select",
        ),
        pytest.param(
            Mapping("f", {"A": "1"}),
            {
                "field": "f",
                "label": "f",
                "default": {"A": "1"},
                "spec": {"type": "mapping"},
            },
            id="mapping",
        ),
    ],
)
def test_a_field_is_described_as_the_stock_client_reads_it(field: Field, want) -> None:
    (found,) = Options(field).get_specification()

    assert found == want
    # `1` and `1.0` are equal, and differ on the wire.
    assert json.dumps(found, sort_keys=True) == json.dumps(want, sort_keys=True)


def test_infinite_bounds_of_a_float_are_none_since_json_has_no_infinity() -> None:
    field = Float("f", 1, min=-math.inf, max=math.inf)

    assert field.json_type_spec() == {"type": "float", "min": None, "max": None}


@pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        (String("f"), 3, "f must be a string, got 3"),
        (String("f"), None, "f must be a string, got None"),
        (Bool("f"), 1, "f must be a bool, got 1"),
        (Bool("f"), "true", "f must be a bool, got 'true'"),
        (Integer("f"), 1.0, "f must be an integer, got 1.0"),
        (Integer("f"), None, "f must be an integer, got None"),
        (Integer("f", 1, min=1), 0, "f must be >= 1.000000, got 0"),
        (Integer("f", 1, max=4), 5, "f must be <= 4.000000, got 5"),
        (Float("f"), "1", "f must be a float, got '1'"),
        (Float("f", 1, min=1), 0.5, "f must be >= 1.000000, got 0.5"),
        (Float("f", 1, max=4), 5, "f must be <= 4.000000, got 5.0"),
        (Select("f", ["a"]), "x", "'x' is not a valid option for f"),
        (Select("f", ["a"]), 1, "f must be a string, got 1"),
        (Mapping("f"), [1], "f must be a mapping, got [1]"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_with_the_peers_text(
    field: Field, value: Any, want: str
) -> None:
    with pytest.raises(RefusedOptions) as refused:
        Options(field).parse_options({"f": value})

    assert str(refused.value) == want
    assert refused.value.http_status == 422


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, False])
@pytest.mark.parametrize("field", [Integer("f"), Float("f", 0, min=-9, max=9)])
def test_w19_nan_infinities_and_booleans_are_no_numbers(
    field: Field, value: object
) -> None:
    with pytest.raises(RefusedOptions, match=r"f must be an? (integer|float), got"):
        Options(field).parse_options({"f": value})


def test_an_integer_beyond_floats_is_refused_and_not_an_error_of_ours() -> None:
    with pytest.raises(RefusedOptions, match="f must be a float"):
        Options(Float("f")).parse_options({"f": 10**5000})


def test_a_long_value_is_cut_in_the_text() -> None:
    with pytest.raises(RefusedOptions) as refused:
        Options(Integer("f")).parse_options({"f": "x" * 10**6})

    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("request_", [[], None, "x", 3])
def test_a_request_that_is_no_mapping_is_refused(request_: object) -> None:
    with pytest.raises(RefusedOptions) as refused:
        Options().parse_options(request_)

    want = f"options must be a dict, got {type(request_).__name__!r}"
    assert str(refused.value) == want


def test_unknown_fields_are_named_in_order() -> None:
    with pytest.raises(RefusedOptions) as refused:
        Options(String("x")).parse_options({"b": 1, "a": 2, "x": ""})

    assert str(refused.value) == "Unknown fields ['a', 'b']"


def test_defaults_are_filled_in_and_belong_to_the_request_alone() -> None:
    options = Options(Mapping("env", {"A": {"deep": 1}}), Integer("n", 3))

    chosen = options.parse_options({})
    chosen["env"]["A"]["deep"] = 2

    assert options.parse_options({}) == {"env": {"A": {"deep": 1}}, "n": 3}


def test_a_default_that_does_not_fit_fails_when_the_file_is_loaded() -> None:
    with pytest.raises(ValueError, match="n must be >= 1"):
        Integer("n", 0, min=1)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Select("f", []), id="no option"),
        pytest.param(lambda: Select("f", [1]), id="key that is no text"),
        pytest.param(lambda: Select("f", {"a": 1}), id="no sequence"),
        pytest.param(lambda: Options("f"), id="no field"),
        pytest.param(lambda: Options(handler="f"), id="no function"),
    ],
)
def test_mistakes_in_the_file_fail_when_it_is_loaded(make) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


def test_values_reach_the_handler_by_target_and_as_attributes() -> None:
    seen = {}

    def handler(options):
        seen.update(options)
        return {"worker_cores": options.cores, "image": options["image"]}

    options = Options(
        Integer("worker_cores", 2, target="cores"),
        Select("flavour", [("small", "img:1")], target="image"),
        handler=handler,
    )
    chosen = options.parse_options({})

    assert options.get_configuration(chosen, ALICE) == {
        "worker_cores": 2,
        "image": "img:1",
    }
    assert seen == {"cores": 2, "image": "img:1"}
    assert chosen == {"worker_cores": 2, "flavour": "small"}


def test_without_a_handler_targets_are_settings() -> None:
    options = Options(Float("gib", 2, target="worker_memory"), String("note"))

    found = options.get_configuration(options.parse_options({}), ALICE)

    assert found == {"worker_memory": 2.0, "note": ""}


def only_options(options):
    return {"got": len(options)}


def options_and_user(options, user):
    return {"got": user.name}


def with_default(options, user=None):
    return {"got": user.name}


def with_keyword_only(options, *, extra=1):
    return {"got": extra}


def with_anything(*args):
    return {"got": len(args)}


class Handler:
    def __call__(self, options, user):
        return {"got": user.name}

    def method(self, options):
        return {"got": len(options)}


@pytest.mark.parametrize(
    ("handler", "want"),
    [
        (only_options, 1),
        (options_and_user, "alice"),
        (with_default, "alice"),
        (with_keyword_only, 1),
        (with_anything, 2),
        (Handler(), "alice"),
        (Handler().method, 1),
        (dict, {}),
    ],
    ids=lambda h: getattr(h, "__name__", type(h).__name__),
)
def test_a_handler_gets_the_user_if_it_has_room_for_one(handler, want) -> None:
    options = Options(String("f"), handler=handler)

    found = options.get_configuration(options.parse_options({}), ALICE)

    assert found.get("got", {}) == want


async def test_a_handler_may_be_a_coroutine_function() -> None:
    async def handler(options, user):
        await asyncio.to_thread(len, "elsewhere")
        options.note = user.name
        return {"environment": {"USER": user.name}}

    options = Options(String("note"), handler=handler)
    chosen = options.parse_options({})

    assert await options.get_configuration(chosen, ALICE) == {
        "environment": {"USER": "alice"}
    }
    assert chosen == {"note": "alice"}


@pytest.mark.parametrize("is_async", [False, True])
async def test_w20_a_value_error_of_many_lines_is_the_users_in_full(
    is_async,
) -> None:
    text = "no GPU for you\nask in #dask\n  or wait"

    def refuse(options):
        raise ValueError(text)

    async def refuse_later(options):
        raise ValueError(text)

    options = Options(handler=refuse_later if is_async else refuse)

    async def configure():
        found = options.get_configuration({}, ALICE)
        return await found if is_async else found

    with pytest.raises(RefusedOptions) as refused:
        await configure()
    assert str(refused.value) == text


def test_an_exception_that_only_a_handler_can_raise_is_a_refusal() -> None:
    def refuse(options):
        raise Exception("members of lab only")  # noqa: TRY002 - as sites write it

    with pytest.raises(RefusedOptions, match="members of lab only"):
        Options(handler=refuse).get_configuration({}, ALICE)


def test_a_refusal_of_our_own_kind_passes_as_it_is() -> None:
    class Refusal(UserError):
        pass

    def refuse(options):
        raise Refusal("no")

    with pytest.raises(Refusal):
        Options(handler=refuse).get_configuration({}, ALICE)


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), TypeError("x")])
def test_a_bug_of_a_handler_is_not_shown_to_the_user(error) -> None:
    def broken(options):
        raise error

    with pytest.raises(type(error)):
        Options(handler=broken).get_configuration({}, ALICE)


def test_a_handler_that_forgets_to_return_is_a_bug() -> None:
    with pytest.raises(TypeError, match="must return a mapping"):
        Options(handler=lambda options: None).get_configuration({}, ALICE)


def test_what_a_handler_changes_is_what_is_stored() -> None:
    def handler(options):
        options.cores = 8
        options["label"] = ("a", "b")
        options.environment["X"] = "1"
        del options.scratch
        options.profile["cpu"] = 99
        return {}

    options = Options(
        Integer("worker_cores", 2, target="cores"),
        Mapping("environment"),
        Bool("scratch"),
        Select("profile", [("small", {"cpu": 1})]),
        handler=handler,
    )
    chosen = options.parse_options({})

    options.get_configuration(chosen, ALICE)

    assert chosen == {
        "worker_cores": 8,
        "environment": {"X": "1"},
        "profile": "small",
        "label": ["a", "b"],
    }
    json.dumps(chosen)


def test_a_profile_that_a_handler_changes_is_whole_for_the_next_user() -> None:
    def handler(options):
        return {"cpu": options.profile.pop("cpu")}

    options = Options(Select("profile", [("small", {"cpu": 1})]), handler=handler)
    chosen = options.parse_options({})

    assert options.get_configuration(chosen, ALICE) == {"cpu": 1}
    assert options.get_configuration(chosen, ALICE) == {"cpu": 1}


def test_what_no_json_can_hold_is_stored_as_text() -> None:
    class Image:
        def __str__(self) -> str:
            return "img:1"

    def handler(options):
        options.image = Image()
        options.bad = math.nan
        options.tags = {"b", "a"}
        return {}

    options = Options(String("image"), handler=handler)
    chosen = options.parse_options({})

    options.get_configuration(chosen, ALICE)

    assert chosen == {"image": "img:1", "bad": "nan", "tags": ["a", "b"]}


def test_a_mistyped_option_names_the_nearest_one() -> None:
    values = OptionValues(worker_cores=1)

    with pytest.raises(AttributeError, match="did you mean 'worker_cores'"):
        _ = values.worker_core
    with pytest.raises(AttributeError):
        del values.worker_core


def test_values_are_a_mapping_too() -> None:
    values = OptionValues(a=1)
    values.b = 2

    assert dict(values) == {**values} == {"a": 1, "b": 2}
    assert {"a", "b"} < set(dir(values))
    assert values._mapping is values


def test_a_field_without_a_type_is_none() -> None:
    with pytest.raises(NotImplementedError):
        Field("f")
    with pytest.raises(NotImplementedError):
        Field.json_type_spec(String("f"))


def test_sites_may_derive_fields_of_their_own() -> None:
    class Even(Integer):
        def validate(self, x):
            x = super().validate(x)
            if x % 2:
                raise ValueError(f"{self.field} must be even")
            return x

        def transform(self, x):
            return x // 2

    options = Options(Even("n", 4, target="half"))

    assert options.transform_options(options.parse_options({"n": 6})) == {"half": 3}
    with pytest.raises(RefusedOptions, match="n must be even"):
        options.parse_options({"n": 5})
