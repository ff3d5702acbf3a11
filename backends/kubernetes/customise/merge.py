"""JSON merge patch (RFC 7396): maps are merged, all else is replaced."""

from collections.abc import Mapping
from typing import Any


def apply_merge(base: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return ``base`` with ``patch`` over it; neither is changed nor shared.

    Examples
    --------
    >>> apply_merge({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": [3]}})
    {'b': {'c': 2, 'd': [3]}}
    """
    if not isinstance(patch, Mapping):
        return copy_json(patch)
    merged = dict(base) if isinstance(base, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge(merged.get(name), value)
    return {
        name: value if name in patch else copy_json(value)
        for name, value in merged.items()
    }


def copy_json(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy that shares nothing, of plain maps and lists.

    Examples
    --------
    >>> copy_json({"a": ("b", "c")})
    {'a': ['b', 'c']}
    """
    if isinstance(value, Mapping):
        return {name: copy_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(inner) for inner in value]
    return value


def drop_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy of ``value`` without fields that are null: they are not there.

    Examples
    --------
    >>> drop_nulls({"a": None, "b": [{"c": None}, None]})
    {'b': [{}, None]}
    """
    if isinstance(value, Mapping):
        return {k: drop_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [drop_nulls(inner) for inner in value]
    return value
