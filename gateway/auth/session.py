"""Sessions: a login that is believed for a while, without asking again.

The cookie itself holds who it is for, signed; a replica keeps nothing but the
work of having verified it.
"""

from collections.abc import Sequence

import msgspec

from gateway.aio.limits import ExpiringMap
from gateway.auth.signing import Purpose, Signer
from gateway.domain.user import User
from gateway.ports import Clock

# Replicas' clocks differ a little.
_CLOCK_SKEW_S = 60.0
# Browsers and proxies refuse longer cookies.
_MAX_COOKIE = 3800
# A few megabytes; each is sent with many requests.
_VERIFIED_MAX = 4096


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
        # By cookie. Only what was signed gets in, so nobody can push others out.
        self._verified = ExpiringMap[str, _Session](_VERIFIED_MAX)

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
        session = self._verified.get(value)
        if session is None:
            session = self._verify(value)
            if session is None:
                return None
            self._verified.put(value, session)
        age_s = self._clock.now().timestamp() - session.issued_s
        if not -_CLOCK_SKEW_S <= age_s < self._max_age_s:
            return None
        # A new one each time: a site's own code may have changed the last.
        return User(session.name, session.groups, session.admin)

    def _verify(self, value: str) -> _Session | None:
        message = self._signer.verify(value) if len(value) <= _MAX_COOKIE else None
        return None if message is None else msgspec.json.decode(message, type=_Session)
