"""Which namespace a cluster's pods go to: by rule, and from the admin's list. Pure."""

import string
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from backends.kubernetes.names import is_namespace
from gateway.domain.errors import InvalidRequest
from gateway.domain.user import User

_FIELD: Final = "namespace"
_PLACEHOLDERS: Final = frozenset({"user", "group"})


def choose_namespace(pattern: str, user: User, allowed: Sequence[str]) -> str:
    """Return the namespace for a cluster of ``user``.

    Parameters
    ----------
    pattern
        A name, in which ``{user}`` and ``{group}`` stand for the owner's name
        and for one of the owner's groups: the first, in alphabetical order, that
        makes an allowed name.
    allowed
        Names, in which ``*`` stands for anything.

    Raises
    ------
    InvalidRequest
        If none of the names is allowed.

    Examples
    --------
    >>> alice = User("alice", groups=["lab", "admins"])
    >>> choose_namespace("team-{group}", alice, ["team-lab", "dask"])
    'team-lab'
    """
    names = [name for name in _list_names(pattern, user) if is_namespace(name)]
    for name in names:
        if is_allowed(name, allowed):
            return name
    if not names:
        text = f"{pattern!r} makes no name of a namespace for this user"
    else:
        text = f"clusters of this user may not go to {', '.join(map(repr, names[:5]))}"
    raise InvalidRequest(_FIELD, f"{text}; ask the gateway's operator")


def is_allowed(namespace: str, allowed: Iterable[str]) -> bool:
    """Return whether one of the names ``allowed`` fits."""
    return any(fnmatchcase(namespace, name) for name in allowed)


def find_pattern_problem(pattern: str) -> str:
    """Return what is wrong with a pattern; "" if nothing is.

    Examples
    --------
    >>> find_pattern_problem("team-{team}")
    'knows no {team}, only {group} and {user}'
    """
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(pattern) if name}
    except ValueError as error:
        return f"cannot be read: {error}"
    unknown = sorted(names - _PLACEHOLDERS)
    return f"knows no {{{unknown[0]}}}, only {{group}} and {{user}}" if unknown else ""


def _list_names(pattern: str, user: User) -> list[str]:
    groups: Iterable[str] = sorted(user.groups) if "{group}" in pattern else ("",)
    return [
        pattern.replace("{user}", user.name).replace("{group}", group)
        for group in groups
    ]
