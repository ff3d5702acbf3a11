"""Amounts as Kubernetes writes them. Pure."""

import re
from decimal import Decimal
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?\Z"
)
_DECIMAL: Final[dict[str, int]] = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
}
_LARGE: Final[dict[str, int]] = {"P": 15, "E": 18}
_BINARY: Final[dict[str, int]] = {
    f"{unit}i": power for power, unit in enumerate("KMGTPE", 1)
}


def parse_quantity(value: Any) -> Decimal:  # noqa: ANN401 - int-or-string
    """Return a quantity as an exact number.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> [int(parse_quantity(v)) for v in ("2Gi", "2G", "1e3", 5, "1.5k")]
    [2147483648, 2000000000, 1000, 5, 1500]
    >>> parse_quantity("250m")
    Decimal('0.250')
    """
    match = _QUANTITY.match(str(value))
    if match is None or isinstance(value, bool):
        raise ValueError(f"{value!r:.100} is no quantity")
    number, suffix = Decimal(match["number"]), match["suffix"] or ""
    if suffix in _BINARY:
        return number * Decimal(1024 ** _BINARY[suffix])
    power = {**_DECIMAL, **_LARGE}.get(suffix)
    return number.scaleb(int(suffix[1:]) if power is None else power)
