"""What an options handler changes in the live configuration, found by comparing.

Handlers of sites write into ``c`` while they serve a request. That is kept, and
it is said once in the log, because such a setting outlives its request.
"""

from typing import Any

from traitlets.config import Config

_GONE = object()


def take_snapshot(config: Config) -> dict[str, Any]:
    """Return the configuration by ``Section.name``, containers copied."""
    found: dict[str, Any] = {}
    _flatten("", config, found)
    return found


def find_changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names whose values differ, sorted.

    Examples
    --------
    >>> find_changes({"A.x": 1, "A.y": 2}, {"A.x": 1, "A.y": 3, "B.z": 4})
    ['A.y', 'B.z']
    """
    return sorted(
        name
        for name in before.keys() | after.keys()
        if not _is_same(before.get(name, _GONE), after.get(name, _GONE))
    )


def _flatten(prefix: str, config: Config, found: dict[str, Any]) -> None:
    for name, value in config.items():
        if isinstance(value, Config):
            _flatten(f"{prefix}{name}.", value, found)
        else:
            found[prefix + name] = _copy(value)


def _copy(value: Any) -> Any:  # noqa: ANN401 - any setting
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(v) for v in value]
    return set(value) if isinstance(value, set) else value


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any setting
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - an object of a site compares as it likes
        return False
