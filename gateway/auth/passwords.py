"""A file of users with hashed passwords, read again when it changes.

One user a line: ``name:hash[:group,group[:admin]]``. The hash is argon2's own
text, as `hash_password` makes it. ``#`` begins a comment line.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from gateway.auth.names import parse_user_name
from gateway.domain.errors import ConfigError, Unauthenticated
from gateway.domain.user import User

log = structlog.get_logger(__name__)

# Some 100,000 users; a file that is larger is not a password file.
_MAX_FILE_BYTES = 32 * 2**20
_MAX_FIELDS = 4
# A hash that asks for more memory would be an outage at each login.
_MAX_MEMORY_KIB = 1 << 20

_hasher = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Account:
    """One line of a password file."""

    user: User
    password_hash: str = field(repr=False)


def hash_password(password: str) -> str:
    """Return the argon2id hash of ``password`` for a password file; slow."""
    return _hasher.hash(password)


def parse_password_file(text: str) -> Mapping[str, Account]:
    """Return the accounts of a password file by user name.

    Raises
    ------
    ConfigError
        With every line that does not fit.
    """
    accounts: dict[str, Account] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            account = _parse_line(line)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if account.user.name in accounts:
            problems.append(f"line {number}: user {account.user.name!r} stands twice")
        accounts[account.user.name] = account
    if problems:
        raise ConfigError(problems)
    return accounts


class PasswordFile:
    """The accounts of one file. Blocks: call from a thread.

    Parameters
    ----------
    path
        Must exist and be well-formed when it is first read. Later a change
        that cannot be read keeps the accounts as they were, and is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] = ()
        self._accounts: Mapping[str, Account] = {}

    def load(self) -> None:
        """Read the file for the first time.

        Raises
        ------
        ConfigError
            If it cannot be read or does not fit.
        """
        with self._lock:
            self._stamp = self._read_stamp()
            self._accounts = self._read()

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether accounts did."""
        with self._lock:
            try:
                stamp = self._read_stamp()
                if stamp == self._stamp:
                    return False
                self._stamp = stamp
                self._accounts = self._read()
            except ConfigError as error:
                log.error("password file cannot be used", problems=error.problems)  # noqa: TRY400 - the text says it all
                return False
            log.info("password file read again", users=len(self._accounts))
            return True

    def check(self, name: str, passwords: tuple[str, ...]) -> User | None:
        """Return the user if one of ``passwords`` is right, slowly in any case."""
        account = self._accounts.get(name)
        expected = _dummy_hash() if account is None else account.password_hash
        matches = [_matches(expected, password) for password in passwords]
        return account.user if account is not None and any(matches) else None

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise ConfigError([f"{self._path}: {error.strerror}"]) from error
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> Mapping[str, Account]:
        try:
            with self._path.open("rb") as file:
                raw = file.read(_MAX_FILE_BYTES + 1)
            accounts = parse_password_file(raw.decode())
        except OSError as error:
            raise ConfigError([f"{self._path}: {error.strerror}"]) from error
        except UnicodeDecodeError as error:
            raise ConfigError([f"{self._path}: is not UTF-8"]) from error
        except ConfigError as error:
            raise ConfigError(
                [f"{self._path}: {problem}" for problem in error.problems]
            ) from error
        if len(raw) > _MAX_FILE_BYTES:
            raise ConfigError([f"{self._path}: larger than {_MAX_FILE_BYTES} B"])
        return accounts


def _parse_line(line: str) -> Account:
    fields = line.split(":")
    if not 1 < len(fields) <= _MAX_FIELDS:
        raise ValueError("must be name:hash[:group,group[:admin]]")
    name, password_hash, groups, role = (*fields, "", "")[:_MAX_FIELDS]
    if role.strip() not in {"", "admin"}:
        raise ValueError("the fourth field can only be 'admin'")
    try:
        parse_user_name(name)
        memory_kib = extract_parameters(password_hash.strip()).memory_cost
    except Unauthenticated as error:
        raise ValueError(str(error)) from error
    except InvalidHashError as error:
        raise ValueError("the second field is no argon2 hash") from error
    if memory_kib > _MAX_MEMORY_KIB:
        raise ValueError("the hash needs more than 1 GiB of memory")
    members = [group.strip() for group in groups.split(",") if group.strip()]
    user = User(name, members, role.strip() == "admin")
    return Account(user, password_hash.strip())


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


_dummy: list[str] = []


def _dummy_hash() -> str:
    # Nobody's password: made once, so that unknown users take as long as known.
    if not _dummy:
        _dummy.append(_hasher.hash(os.urandom(16).hex()))
    return _dummy[0]
