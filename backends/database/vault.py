"""Encrypt clusters' credentials at rest, with keys that can be rotated.

Where the ciphertext is kept is the store's business.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from typing_extensions import override

from gateway.domain.credentials import Credentials
from gateway.domain.errors import ConfigError

SETTING: Final = "DBBackendBase.db_encrypt_keys"
ENVIRONMENT: Final = "DASK_GATEWAY_ENCRYPT_KEYS"

_KEY_BYTES: Final = 32
_CANARY: Final = b"daskfleet"


class Vault:
    """Seals and opens credentials.

    Parameters
    ----------
    keys
        At least one, each 32 bytes. The first seals, all of them open.

    Notes
    -----
    To rotate, add a new key behind and restart each server, then put it in front
    and restart each again; what old keys sealed is sealed anew. Then they may go.
    One server alone needs the second step only.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        fernets = [Fernet(base64.urlsafe_b64encode(key)) for key in keys]
        self._current = fernets[0]
        self._all = MultiFernet(fernets)

    @override
    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, credentials: Credentials) -> bytes:
        """Return ``credentials`` encrypted."""
        return self._current.encrypt(msgspec.json.encode(credentials))

    def open(self, sealed: bytes) -> Credentials:
        """Return the credentials that `seal` has made ``sealed`` of.

        Raises
        ------
        ConfigError
            If none of the keys opens it.
        """
        return msgspec.json.decode(self._open(sealed), type=Credentials)

    def is_current(self, sealed: bytes) -> bool:
        """Return whether the first key has sealed it."""
        try:
            self._current.decrypt(sealed)
        except InvalidToken:
            return False
        return True

    def make_canary(self) -> bytes:
        """Return something sealed, by which `check_canary` knows the keys."""
        return self._current.encrypt(_CANARY)

    def check_canary(self, sealed: bytes) -> None:
        """Raise `ConfigError` unless one of the keys has sealed it."""
        self._open(sealed)

    def _open(self, sealed: bytes) -> bytes:
        try:
            return self._all.decrypt(sealed)
        except InvalidToken as error:
            text = (
                "none of the keys opens what this database holds; add the key that "
                f"sealed it (setting, or {ENVIRONMENT})"
            )
            raise ConfigError([f"{SETTING}: {text}"]) from error


def parse_keys(texts: Iterable[str | bytes]) -> tuple[bytes, ...]:
    """Return the keys that an operator wrote, 32 raw bytes or urlsafe base64.

    Raises
    ------
    ConfigError
        Naming the setting and the position of each key that is neither, but
        never the key.
    """
    keys, problems = [], []
    for position, text in enumerate(texts, start=1):
        key = _parse_key(text.encode() if isinstance(text, str) else text)
        if key is None:
            problems.append(
                f"{SETTING}: key {position} must be 32 bytes, raw or in urlsafe base64"
            )
        else:
            keys.append(key)
    if problems:
        raise ConfigError(problems)
    return tuple(keys)


def read_key_file(path: Path) -> tuple[bytes, ...]:
    """Return the keys in the file ``path``, which is made if there is none.

    One key a line, urlsafe base64, the one that seals first. Blocks. Of two
    processes that make it at once, both read the one that was first.
    """
    if not path.exists():
        _make_key_file(path)
    lines = path.read_bytes().split()
    if not lines:
        raise ConfigError([f"{path}: holds no key; restore it from a backup"])
    try:
        return parse_keys(lines)
    except ConfigError as error:
        raise ConfigError([f"{path}: {text}" for text in error.problems]) from error


def _parse_key(raw: bytes) -> bytes | None:
    if len(raw) == _KEY_BYTES:
        return raw
    try:
        key = base64.b64decode(raw, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _make_key_file(path: Path) -> None:
    # Written whole under another name first: a crash leaves no half a key.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first
    finally:
        draft.unlink()
