"""Sessions: a login that is believed for a while, without asking again.

The cookie itself holds who it is for, signed; no replica keeps anything.
"""

from collections.abc import Sequence

import msgspec

from gateway.auth.signing import Purpose, Signer
from gateway.domain.user import User
from gateway.ports import Clock

# Replicas' clocks differ a little.
_CLOCK_SKEW_S = 60.0
# Browsers and proxies refuse longer cookies.
_MAX_COOKIE = 3800


class _Session(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    groups: list[str]
    admin: bool
    issued_s: float


class Sessions:
    """Issues sessions and reads them again.

    Parameters
    ----------
    keys
        As for `gateway.auth.signing.Signer`; shared by all replicas.
    max_age_s
        Seconds from issue, not sliding: then groups and admins are read anew.
    clock
        Wall clock, since replicas compare times.
    """

    def __init__(self, keys: Sequence[bytes], max_age_s: float, clock: Clock) -> None:
        self._signer = Signer(keys, Purpose.SESSION)
        self._max_age_s = max_age_s
        self._clock = clock

    def issue(self, user: User) -> str | None:
        """Return a cookie's value; ``None`` if sessions cannot hold this user.

        Whoever is in so many groups that no cookie holds them is asked for
        credentials with each request.
        """
        if self._max_age_s <= 0:
            return None
        now_s = self._clock.now().timestamp()
        session = _Session(user.name, sorted(user.groups), bool(user.admin), now_s)
        value = self._signer.sign(msgspec.json.encode(session))
        return value if len(value) <= _MAX_COOKIE else None

    def read(self, value: str) -> User | None:
        """Return whom ``value`` was issued for; ``None`` if too old or not ours."""
        message = self._signer.verify(value) if len(value) <= _MAX_COOKIE else None
        if message is None:
            return None
        session = msgspec.json.decode(message, type=_Session)
        age_s = self._clock.now().timestamp() - session.issued_s
        if not -_CLOCK_SKEW_S <= age_s < self._max_age_s:
            return None
        return User(session.name, session.groups, session.admin)
