"""Links that open a dashboard without a password, and the cookies they become."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gateway.auth.signing import Purpose, Signer
from gateway.domain.user import User
from gateway.ports import Clock

COOKIE_NAME = "daskfleet-dashboard"
# A working day: a page that is open does not ask again, one that is loaded
# anew past half of it gets a new cookie.
COOKIE_MAX_AGE_S = 8 * 3600
# Links change so often in their lifetime; between, records are equal.
_EPOCHS = 4
# Far above any user name's length.
_MAX_TEXT = 3000


class _Claims(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    user: str
    admin: bool
    expiry_s: int


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whom a link or a cookie was issued for.

    Parameters
    ----------
    user
        Who they are, without groups.
    left_s
        Seconds until the link or the cookie ends.
    """

    user: User
    left_s: float


class DashboardLinks:
    """Issues and reads links and cookies, each bound to one cluster and user.

    Parameters
    ----------
    keys
        As for `gateway.auth.signing.Signer`; shared by all replicas.
    max_age_s
        Longest lifetime of a link, in seconds; the shortest is three quarters.
    clock
        Wall clock, since replicas compare times.
    """

    def __init__(self, keys: Sequence[bytes], max_age_s: float, clock: Clock) -> None:
        self._links = Signer(keys, Purpose.DASHBOARD_LINK)
        self._cookies = Signer(keys, Purpose.DASHBOARD_COOKIE)
        self._period_s = max(1, int(max_age_s / _EPOCHS))
        self._clock = clock

    @property
    def epoch(self) -> int:
        """Number that is equal for as long as links are."""
        return int(self._now_s() // self._period_s)

    def format_route(self, cluster: str, user: User) -> str:
        """Return the path of a link for ``user``, without the public prefix."""
        expiry_s = (self.epoch + _EPOCHS) * self._period_s
        claims = _Claims(user.name, bool(user.admin), expiry_s)
        token = self._links.sign(msgspec.json.encode(claims), context=cluster)
        return f"/clusters/{cluster}/login/{token}/status"

    def read_token(self, cluster: str, token: str) -> Visitor | None:
        """Return whom a link to ``cluster`` is for; ``None`` if it is no good."""
        return self._read(self._links, cluster, token)

    def issue_cookie(self, cluster: str, user: User) -> str:
        """Return the value of a cookie that opens the dashboard of ``cluster``."""
        claims = _Claims(
            user.name, bool(user.admin), int(self._now_s()) + COOKIE_MAX_AGE_S
        )
        return self._cookies.sign(msgspec.json.encode(claims), context=cluster)

    def read_cookie(self, cluster: str, value: str) -> Visitor | None:
        """Return whom a cookie is for; ``None`` if it is no good for ``cluster``."""
        return self._read(self._cookies, cluster, value)

    def _read(self, signer: Signer, cluster: str, text: str) -> Visitor | None:
        message = (
            signer.verify(text, context=cluster) if len(text) <= _MAX_TEXT else None
        )
        if message is None:
            return None
        claims = msgspec.json.decode(message, type=_Claims)
        left_s = claims.expiry_s - self._now_s()
        if left_s <= 0:
            return None
        return Visitor(User(claims.user, (), claims.admin), left_s)

    def _now_s(self) -> float:
        return self._clock.now().timestamp()
