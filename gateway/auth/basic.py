"""HTTP Basic: one password that all share, or a file with one for each user."""

import asyncio
import base64
import binascii
import hmac
import os
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from traitlets import Set, TraitError, Unicode, validate
from typing_extensions import override

from gateway.aio.clock import SystemClock
from gateway.aio.limits import ExpiringMap
from gateway.auth.base import Authenticator
from gateway.auth.names import parse_user_name
from gateway.auth.passwords import PasswordFile
from gateway.auth.signing import Purpose, Signer
from gateway.auth.slowdown import Slowdown
from gateway.domain.addresses import is_loopback
from gateway.domain.errors import Unauthenticated
from gateway.domain.user import User

log = structlog.get_logger(__name__)

CHALLENGE = 'Basic realm="daskfleet", charset="UTF-8"'

# Each verification takes 64 MiB and a core for some 50 ms.
_PARALLEL_HASHES = 2
_VERIFIED_MAX = 10_000
_VERIFIED_S = 60.0
# How soon a changed password file counts for those who are known already.
_FILE_CHECK_S = 1.0
_MAX_PASSWORD = 1024


class SimpleAuthenticator(Authenticator):
    """Basic authentication by a shared password or a password file.

    With neither, anybody is believed to be whoever they say: for trying out
    on a machine of one's own.
    """

    password = Unicode(
        None,
        allow_none=True,
        help="""
        One password that all users must give. Without it, and without
        `password_file`, any password is accepted.
        """,
    ).tag(config=True)

    password_file = Unicode(
        "",
        help="""
        File with one user a line: `name:hash[:group,group[:admin]]`, where
        `hash` is an argon2 hash. Read again when it changes.
        """,
    ).tag(config=True)

    admin_users = Set(
        Unicode(), help="Names of users who may see and stop everybody's clusters."
    ).tag(config=True)

    admin_groups = Set(
        Unicode(), help="Groups whose members may see and stop everybody's clusters."
    ).tag(config=True)

    @validate("password_file")
    def _check_password_file(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        if proposal["value"] and self.password:
            raise TraitError("set password or password_file, not both")
        return str(proposal["value"])

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' arguments
        super().__init__(**kwargs)
        clock = SystemClock()
        # Of this process alone: nothing that is signed by it leaves it.
        self._signer = Signer([os.urandom(32)], Purpose.CREDENTIALS_CACHE)
        self._verified = ExpiringMap[bytes, User](_VERIFIED_MAX, _VERIFIED_S)
        self._slowdown = Slowdown(clock.monotonic)
        self._hashing = asyncio.Semaphore(_PARALLEL_HASHES)
        self._file: PasswordFile | None = None
        self._clock = clock
        self._file_checked = float("-inf")

    @override
    async def setup(self, app: web.Application) -> None:
        if self.password_file:
            file = PasswordFile(Path(self.password_file))
            await asyncio.to_thread(file.load)
            self._file = file
        elif not self.password:
            log.warning(
                "any password is accepted", trait="SimpleAuthenticator.password"
            )

    @override
    async def authenticate(self, request: web.Request) -> User:
        header = request.headers.get("Authorization")
        if not header:
            raise Unauthenticated(challenge=CHALLENGE)
        try:
            return await self._authenticate(request, header)
        except Unauthenticated as error:
            raise Unauthenticated(str(error), challenge=CHALLENGE) from error

    async def _authenticate(self, request: web.Request, header: str) -> User:
        await self._refresh()
        key = self._signer.fingerprint(header.encode("utf-8", "surrogateescape"))
        if (known := self._verified.get(key)) is not None:
            return known
        name, passwords = parse_basic(header)
        source = find_source(request)
        await self._slowdown.wait(source)
        user = await self._check(name, passwords)
        if user is None:
            self._slowdown.note_failure(source)
            log.warning("wrong password", user=name, source=source)
            raise Unauthenticated("user name or password is wrong")
        self._verified.put(key, user)
        return user

    async def _check(self, name: str, passwords: tuple[str, ...]) -> User | None:
        if self._file is not None:
            async with self._hashing:
                found = await asyncio.to_thread(self._file.check, name, passwords)
        elif self.password and not _is_one_of(self.password, passwords):
            found = None
        else:
            found = User(name)
        return None if found is None else self._with_role(found)

    def _with_role(self, user: User) -> User:
        admin = (
            user.admin
            or user.name in self.admin_users
            or bool(user.groups & self.admin_groups)
        )
        return User(user.name, user.groups, admin)

    async def _refresh(self) -> None:
        now = self._clock.monotonic()
        if self._file is None or now - self._file_checked < _FILE_CHECK_S:
            return
        self._file_checked = now
        if await asyncio.to_thread(self._file.refresh):
            self._verified.clear()


def parse_basic(header: str) -> tuple[str, tuple[str, ...]]:
    """Return the user name and the readings of the password of a Basic header.

    Clients write UTF-8 (RFC 7617) or Latin-1 (the stock client); a name is
    read as UTF-8 where it can be. The password has a reading in each.

    Raises
    ------
    Unauthenticated
        If the header is malformed or the name cannot be a user's.
    """
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        raise Unauthenticated("the Authorization header is not Basic")
    try:
        raw = base64.b64decode(credentials.strip().encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Unauthenticated("the Authorization header is not base64") from None
    name, separator, password = raw.partition(b":")
    if not separator:
        raise Unauthenticated("the Authorization header has no colon")
    if len(password) > _MAX_PASSWORD:
        raise Unauthenticated(f"the password is longer than {_MAX_PASSWORD} bytes")
    return parse_user_name(_readings(name)[0]), _readings(password)


def find_source(request: web.Request) -> str:
    """Return the address that a request came from, as our proxy saw it."""
    # The last entry is the proxy's own; whatever stands before it is hearsay.
    header = request.headers.get("X-Forwarded-For", "")
    before, comma, last = header.rpartition(",")
    if comma and is_loopback(last.strip()):
        # A dashboard's visitor: the proxy asks by way of its own internal port.
        last = before.rpartition(",")[2]
    return (last.strip() or request.remote or "unknown")[:64]


def _readings(raw: bytes) -> tuple[str, ...]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return (raw.decode("latin-1"),)
    return (text,) if raw.isascii() else (text, raw.decode("latin-1"))


def _is_one_of(expected: str, passwords: tuple[str, ...]) -> bool:
    want = expected.encode()
    matches = [hmac.compare_digest(want, given.encode()) for given in passwords]
    return any(matches)
