"""The certificates by which running schedulers know the API, kept up to date.

A scheduler may run for weeks, as a user who cannot read the operator's files,
and the operator's certificate is renewed meanwhile. So schedulers are pointed at
a copy of ours, which follows that file. Everything here blocks.
"""

from pathlib import Path
from typing import Final

import structlog
from cryptography import x509

from backends.routing.files import read_text, write_atomically

# Certificates are no secret, and schedulers may run as other users.
_READABLE: Final = 0o644

log = structlog.get_logger(__name__)


class TrustCopy:
    """A copy of the operator's PEM file.

    Parameters
    ----------
    source
        The operator's file. One that is away, or is half written, changes
        nothing.
    copy
        Ours, replaced in one step; its directory exists.
    """

    def __init__(self, source: Path, copy: Path) -> None:
        self._source = source
        self._problem = ""
        self.path = copy

    def refresh(self) -> None:
        """Make the copy say what the source says.

        Raises
        ------
        OSError
            If the copy cannot be written.
        """
        try:
            text = self._source.read_text(encoding="ascii")
            certificates = x509.load_pem_x509_certificates(text.encode())
        except (OSError, ValueError) as error:
            self._tell(str(error))
            return
        self._problem = ""
        if text == read_text(self.path):
            return
        write_atomically(self.path, text, mode=_READABLE)
        log.info(
            "schedulers follow the public port's certificate",
            file=str(self._source),
            certificates=len(certificates),
        )

    def _tell(self, problem: str) -> None:
        # Looked at every few seconds: told once.
        if problem != self._problem:
            self._problem = problem
            log.warning(
                "certificate of the public port cannot be read, "
                "running schedulers keep the last one",
                file=str(self._source),
                problem=problem,
            )
