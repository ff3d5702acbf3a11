"""The file of keys that sign sessions and links: made once, shared, rotated."""

import base64
import binascii
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.auth.signing import MIN_KEY_BYTES
from gateway.domain.errors import ConfigError

_KEY_BYTES: Final = 32
_SETTING: Final = "DaskGateway.signing_key_file"


def read_signing_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys in the file ``path``, which is made if there is none.

    One key a line in urlsafe base64; the first one signs, all are believed. To
    rotate, put a new one in front, restart, and remove the old one a day later.
    Blocks. Of two that make the file at once, one wins and both read it.

    Raises
    ------
    ConfigError
        If it cannot be made or read, or holds something else.
    """
    try:
        if not path.exists():
            _make(path)
        lines = path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{_SETTING}: {path}: {error}"]) from error
    keys = tuple(_parse(line) for line in lines)
    if not keys or any(len(key) < MIN_KEY_BYTES for key in keys):
        raise ConfigError(
            [f"{_SETTING}: {path} must hold keys in urlsafe base64, one a line"]
        )
    return keys


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole under another name first: nobody ever reads half a key.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            key = base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES))
            opened.write(key + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def _parse(line: str) -> bytes:
    try:
        return base64.b64decode(line, altchars=b"-_", validate=True)
    except binascii.Error:
        return b""
