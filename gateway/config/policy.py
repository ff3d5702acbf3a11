"""Caps of users and groups as an operator writes them, as domain values."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from traitlets import Dict, TraitError
from typing_extensions import override

from gateway.config.section import Section
from gateway.domain.policy import Caps, Policy
from gateway.domain.quantities import parse_cores, parse_memory


def _parse_count(value: Any) -> int:  # noqa: ANN401 - as an operator wrote it
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be a whole number >= 0, got {value!r}")
    return value


# Key in the file -> field of `Caps`, and how its value is read.
_CAPS: Final = {
    "clusters": ("clusters", _parse_count),
    "workers": ("workers", _parse_count),
    "cores": ("cores", parse_cores),
    "memory": ("memory_bytes", parse_memory),
}

_KEYS_HELP = """
Keys are `clusters`, `workers`, `cores` and `memory` (such as "200 G"); what is not
named is not limited. Active clusters count, with their schedulers; an adaptive one
counts with its maximum.
"""


class CapsTrait(Dict):
    """Caps of one share: `{"clusters": 3, "memory": "200 G"}`."""

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        checked = super().validate(obj, value)
        _check(lambda: parse_caps(checked))
        return checked


class CapsByNameTrait(Dict):
    """Caps by name: `{"alice": {"clusters": 3}}`."""

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        checked: dict[str, Any] = super().validate(obj, value) or {}
        for name, caps in checked.items():
            _check(lambda caps=caps: parse_caps(caps), f"{name!r}: ")
        return checked


class UserPolicy(Section):
    """What users and groups may hold at one time."""

    default = CapsTrait(
        help=f"Caps of each user who is not named in `users`. {_KEYS_HELP}"
    ).tag(config=True)

    users = CapsByNameTrait(
        help="""
        Caps by user name, such as `{"alice": {"clusters": 10}}`. They replace the
        default as a whole.
        """
    ).tag(config=True)

    groups = CapsByNameTrait(
        help="""
        Caps by group name. The clusters of all members are summed, and every group
        of a user must have room.
        """
    ).tag(config=True)

    def resolve(self) -> Policy:
        """Return the caps as plain values."""
        return Policy(
            default=parse_caps(self.default),
            users={name: parse_caps(caps) for name, caps in self.users.items()},
            groups={name: parse_caps(caps) for name, caps in self.groups.items()},
        )


def parse_caps(written: Any) -> Caps:  # noqa: ANN401 - as an operator wrote it
    """Return caps from a mapping with the keys of the file.

    Raises
    ------
    ValueError
        Naming the key, and the nearest one that there is.

    Examples
    --------
    >>> parse_caps({"clusters": 3, "memory": "1 G"})
    Caps(clusters=3, workers=None, cores=None, memory_bytes=1073741824)
    """
    if not isinstance(written, Mapping):
        raise ValueError(f"caps must be a mapping, got {written!r:.100}")  # noqa: TRY004 - one class per refused value
    found: dict[str, Any] = {}
    for key, value in written.items():
        if key not in _CAPS:
            near = get_close_matches(str(key), _CAPS, n=1)
            hint = (
                f", did you mean {near[0]!r}?" if near else f"; use {', '.join(_CAPS)}"
            )
            raise ValueError(f"no cap is named {key!r}{hint}")
        field, parse = _CAPS[key]
        if value is None or (isinstance(value, float) and math.isinf(value)):
            continue
        try:
            found[field] = parse(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    return Caps(**found)


def _check(parse: Any, prefix: str = "") -> None:  # noqa: ANN401 - a parameterless function
    try:
        parse()
    except ValueError as error:
        raise TraitError(f"{prefix}{error}") from error
