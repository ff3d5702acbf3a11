"""Amounts as sites write them."""

import math

import pytest

from gateway.domain.quantities import (
    format_memory,
    format_millicores,
    parse_cores,
    parse_memory,
)


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("2 G", 2 * 2**30),
        ("2G", 2 * 2**30),
        ("22.5 G", int(22.5 * 2**30)),
        ("2.0 GiB", 2 * 2**30),
        ("2Gi", 2 * 2**30),
        ("512 M", 512 * 2**20),
        ("3K", 3 * 1024),
        ("1.000000G", 2**30),
        (".5 T", 2**39),
        ("4294967296", 2**32),
        ("100 B", 100),
        (2147483648, 2**31),
        (2147483648.7, 2**31),
        (0, 0),
    ],
)
def test_memory_is_read_as_sites_write_it(written, want) -> None:
    assert parse_memory(written) == want


@pytest.mark.parametrize(
    "written",
    ["", "G", "two G", "2 GB", "2 g", "-1 G", -1, True, None, [], "1e3 G", "9 E",
     math.nan, math.inf, 2**63, "9999999 P", "2 G G", "2\n3 G"],
)  # fmt: skip
def test_what_is_no_amount_of_memory_is_refused(written) -> None:
    with pytest.raises(ValueError, match="memory"):
        parse_memory(written)


@pytest.mark.parametrize(
    ("number", "want"),
    [(0, "0 B"), (1023, "1023 B"), (2**20, "1.00 MiB"), (2**51, "2.00 PiB")],
)
def test_memory_is_written_for_people(number, want) -> None:
    assert format_memory(number) == want


@pytest.mark.parametrize(
    ("written", "want"),
    [
        (1, 1),
        (2.0, 2),
        (7.745, 7.745),
        (0.3 - 0.1, 0.2),
        ("500m", 0.5),
        ("2", 2),
        (0, 0),
    ],
)
def test_cores_keep_three_decimals(written, want) -> None:
    assert parse_cores(written) == want
    assert isinstance(parse_cores(written), type(want))


@pytest.mark.parametrize(
    "written", [-1, True, "many", None, math.nan, math.inf, "m", 1e9 + 1, 1e300, "9e99"]
)
def test_what_is_no_number_of_cores_is_refused(written) -> None:
    with pytest.raises(ValueError, match="cores"):
        parse_cores(written)


def test_cores_become_thousandths() -> None:
    assert format_millicores(7.745) == "7745m"
