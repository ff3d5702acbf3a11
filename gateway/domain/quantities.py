"""Amounts of memory and cores: read, checked and written. Pure."""

import math
import re
from typing import Any, Final

_UNITS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_MEMORY: Final = re.compile(
    r"\s*(?P<number>[0-9]*\.?[0-9]+|[0-9]+\.)\s*"
    r"(?:(?P<unit>[KMGTP])(?:i|iB)?|B)?\s*\Z"
)
# 2**63 bytes; more is a typing error, and no database holds it.
_MOST_BYTES: Final = 2**63 - 1
# As above; a database holds thousandths of them, for as many workers.
_MOST_CORES: Final = 10**9


def parse_memory(value: Any) -> int:  # noqa: ANN401 - numbers and texts alike
    """Return an amount of memory in bytes.

    Parameters
    ----------
    value
        Bytes as a number, or a text: a number and one of K, M, G, T, P, which
        are powers of 1024 and may be followed by ``i`` or ``iB``.

    Raises
    ------
    ValueError
        If it is neither, negative, not finite or beyond 2**63.

    Notes
    -----
    "GB" is refused rather than guessed: G is 2**30 here (peer: dask-gateway)
    and GB is 10**9 elsewhere in Dask.

    Examples
    --------
    >>> parse_memory("2 G"), parse_memory("2.0 GiB"), parse_memory(1.5)
    (2147483648, 2147483648, 1)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value!r} is no amount of memory")
        return _check_bytes(int(value), value)
    found = _MEMORY.match(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            f"{value!r:.200} is no amount of memory; give bytes, or a number "
            "with one of K, M, G, T such as '2 G' (2**30 bytes each)"
        )
    factor = 1024 ** _UNITS[found["unit"] or ""]
    return _check_bytes(int(float(found["number"]) * factor), value)


def _check_bytes(number: int, value: Any) -> int:  # noqa: ANN401 - only shown
    if number < 0:
        raise ValueError(f"memory must be >= 0, got {value!r}")
    if number > _MOST_BYTES:
        raise ValueError(f"{value!r:.200} is more memory than 2**63 bytes")
    return number


def format_memory(number: float) -> str:
    """Return bytes as people read them, with two decimals.

    Examples
    --------
    >>> format_memory(2**31), format_memory(1536), format_memory(7)
    ('2.00 GiB', '1.50 KiB', '7 B')
    """
    for power in range(5, 0, -1):
        if number >= 1024**power:
            return f"{number / 1024**power:.2f} {' KMGTP'[power]}iB"
    return f"{number:.0f} B"


def parse_cores(value: Any) -> float:  # noqa: ANN401 - numbers and texts alike
    """Return a number of cores, with three decimals; whole ones as integers.

    Parameters
    ----------
    value
        A number, a text with one, or thousandths as in "500m".

    Raises
    ------
    ValueError
        If it is none of them, negative, not finite or beyond 10**9.

    Examples
    --------
    >>> parse_cores(7.7451), parse_cores("500m"), parse_cores(2.0)
    (7.745, 0.5, 2)
    """
    number = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            if isinstance(value, str) and value.strip().endswith("m"):
                number = float(value.strip()[:-1]) / 1000
            else:
                number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value!r:.200} is no number of cores")
    if number < 0:
        raise ValueError(f"cores must be >= 0, got {value!r}")
    if number > _MOST_CORES:
        raise ValueError(f"{value!r:.200} is more than {_MOST_CORES} cores")
    rounded = round(number, 3)
    return int(rounded) if rounded.is_integer() else rounded


def format_millicores(cores: float) -> str:
    """Return cores in the thousandths that Kubernetes takes.

    Examples
    --------
    >>> format_millicores(7.745)
    '7745m'
    """
    return f"{round(cores * 1000)}m"
