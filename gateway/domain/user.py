"""The person or service behind a request."""

from collections.abc import Iterable
from typing import Any

from typing_extensions import override


class User:
    """Somebody who has logged in.

    Parameters
    ----------
    name
        Unique, never empty. Any script; escaped where an object is named.
    groups
        Groups as the authenticator reports them, in any order.
    admin
        Whether the user may see and stop everybody's clusters.

    Notes
    -----
    An ordinary class with these three arguments because sites' own
    authenticators construct it and their option handlers read it (peer:
    ``dask_gateway_server.auth.User``). Treat it as immutable.

    Examples
    --------
    >>> User("alice", groups=["lab"]).groups == {"lab"}
    True
    """

    __slots__ = ("admin", "groups", "name")

    def __init__(
        self,
        name: str,
        groups: Iterable[str] = (),
        admin: bool = False,  # noqa: FBT001, FBT002 - the peer's signature
    ) -> None:
        self.name = name
        self.groups = frozenset(groups)
        self.admin = admin

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and self._key() == other._key()

    @override
    def __hash__(self) -> int:
        return hash(self._key())

    @override
    def __repr__(self) -> str:
        groups = sorted(self.groups)
        return f"User(name={self.name!r}, {groups=}, admin={self.admin})"

    def may_use(self, owner: str) -> bool:
        """Return whether this user may address a cluster of ``owner``."""
        return self.admin or self.name == owner

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.groups, self.admin)
