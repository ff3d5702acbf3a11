"""Files of the proxy: replaced in one step, readable by us alone.

Everything here blocks; callers use a thread. What stands in the files is
decided in `table` and `static`.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID = timedelta(days=3650)  # nobody verifies it
_SKEW = timedelta(minutes=5)


def write_atomically(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace ``path`` by ``text``: a reader sees the old or the new, whole.

    Durable once it returns; of that ``mode``, also if it was another before.
    """
    # The ending keeps it out of sight of Traefik's file provider.
    temporary = path.with_name(
        f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp"
    )
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)  # whatever the umask makes of it
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


class FileLock:
    """A lock among all threads and processes that use one file.

    The kernel frees it when its holder dies. Making one opens the file and
    takes nothing yet.

    Parameters
    ----------
    path
        Made if it is not there, and left.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self) -> None:
        """Take it, waiting for as long as another has it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def try_to_take(self) -> bool:
        """Take it and return true, or return false if another has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give it up, and the file."""
        os.close(self._descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path`` for the block."""
    lock = FileLock(path)
    try:
        lock.take()
        yield
    finally:
        lock.close()


def read_text(path: Path) -> str | None:
    """Return the text of ``path``, ``None`` if there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def make_directory(path: Path) -> None:
    """Make ``path`` with its parents; it alone is kept from other users."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def ensure_certificate(path: Path, now: datetime) -> None:
    """Make the certificate for names that are nobody's, unless it is there.

    Without one Traefik makes an RSA key at every reload. Certificate and key
    share the file, so that two gateways that start at once leave a pair.
    """
    if path.exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "daskfleet default")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate_text = certificate.public_bytes(serialization.Encoding.PEM)
    write_atomically(path, (certificate_text + key_text).decode())


def _sync_directory(directory: Path) -> None:
    # A rename is durable only once its directory is.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
