"""Signed texts: what the gateway hands out and later believes again.

All replicas share the keys, so each of them believes what another one signed.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

from gateway.domain.errors import ConfigError

# HMAC-SHA256 gains nothing from more, and loses strength with less.
MIN_KEY_BYTES = 16


class Purpose(StrEnum):
    """What a signed text is good for, and for nothing else."""

    SESSION = "session"
    DASHBOARD_LINK = "dashboard-link"
    DASHBOARD_COOKIE = "dashboard-cookie"
    CREDENTIALS_CACHE = "credentials-cache"


class Signer:
    """Signs and verifies short texts for one purpose.

    Parameters
    ----------
    keys
        The first signs; all are believed, so that keys can be rotated.
    purpose
        Mixed into the key: a text signed for one purpose is no good for
        another.

    Raises
    ------
    ConfigError
        If there is no key, or one that is too short.

    Examples
    --------
    >>> signer = Signer([b"k" * 32], Purpose.SESSION)
    >>> text = signer.sign(b"alice")
    >>> signer.verify(text), signer.verify(text + "x")
    (b'alice', None)
    """

    def __init__(self, keys: Sequence[bytes], purpose: Purpose) -> None:
        if not keys or any(len(key) < MIN_KEY_BYTES for key in keys):
            raise ConfigError(
                [f"signing keys: need at least one, each of {MIN_KEY_BYTES} bytes"]
            )
        label = b"daskfleet " + purpose.encode()
        self._keys = [hmac.digest(key, label, hashlib.sha256) for key in keys]

    def sign(self, message: bytes, *, context: str = "") -> str:
        """Return ``message`` with its signature, safe in a URL and in a cookie.

        Parameters
        ----------
        message
            Readable by whoever gets the text: signed, not encrypted.
        context
            What else must be the same when it is verified, such as the name of
            the cluster; not part of the text.
        """
        tag = self._tag(self._keys[0], message, context)
        return f"{_encode(message)}.{_encode(tag)}"

    def verify(self, text: str, *, context: str = "") -> bytes | None:
        """Return the message of ``text``, ``None`` if it was not signed by us."""
        head, separator, tail = text.partition(".")
        message, tag = _decode(head), _decode(tail)
        if not separator or message is None or tag is None:
            return None
        for key in self._keys:
            if hmac.compare_digest(tag, self._tag(key, message, context)):
                return message
        return None

    def fingerprint(self, message: bytes) -> bytes:
        """Return what stands for ``message`` where itself must not be kept."""
        return self._tag(self._keys[0], message, "")

    @staticmethod
    def _tag(key: bytes, message: bytes, context: str) -> bytes:
        # The length keeps context and message apart.
        bound = context.encode("utf-8", "surrogatepass")
        head = len(bound).to_bytes(8, "big")
        return hmac.digest(key, head + bound + message, hashlib.sha256)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(
            text.encode("ascii") + b"=" * (-len(text) % 4),
            altchars=b"-_",
            validate=True,
        )
    except (UnicodeEncodeError, binascii.Error):
        return None
    # Base64 has several spellings of one value; only ours is believed.
    return raw if _encode(raw) == text else None
