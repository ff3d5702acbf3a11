"""Secrets that the suite has issued, and a search for them in what was logged.

Tokens of clusters are remembered by themselves, from `make_token` on; whatever
else is secret in a test (a password, a session key) is told to `remember`.
Private keys need not be told: their PEM header gives them away.
"""

import re
from collections.abc import Iterable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path

_WORD = re.compile(r"[A-Za-z0-9_-]{16,}")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# A log that is longer is read from its end.
_MOST_BYTES = 32 * 2**20

_words: dict[str, str] = {}
_texts: dict[str, str] = {}


def remember(secret: str, what: str) -> str:
    """Return ``secret``, and from now on fail any test that prints it.

    Parameters
    ----------
    secret
        At least 8 characters, so that it is not found by chance.
    what
        How a failure names it; the secret itself is not shown.
    """
    if len(secret) < 8:
        raise ValueError(f"{what}: too short to be searched for")
    (_words if _WORD.fullmatch(secret) else _texts)[secret] = what
    return secret


def find_leaks(text: str) -> list[str]:
    """Return what secrets stand in ``text``, by name, sorted."""
    found = {_words[word] for word in _WORD.findall(text) if word in _words}
    found |= {what for secret, what in _texts.items() if secret in text}
    if _PRIVATE_KEY.search(text):
        found.add("a private key")
    return sorted(found)


def find_leaks_in_logs(folder: Path) -> list[str]:
    """Return ``file: secret`` for each secret in a log file below ``folder``."""
    return [
        f"{log.relative_to(folder)}: {what}"
        for log in _logs(folder)
        for what in find_leaks(_read_end(log))
    ]


def watch_issued_tokens() -> None:
    """Remember each token that `gateway.credentials` makes in this process."""
    if find_spec("gateway.credentials") is None:
        return
    from gateway import credentials

    make_token = credentials.make_token

    @wraps(make_token)
    def make_and_remember() -> str:
        return remember(make_token(), "a cluster's token")

    credentials.make_token = make_and_remember


def _logs(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*.log*") if path.is_file())


def _read_end(path: Path) -> str:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _MOST_BYTES))
        return log.read().decode(errors="replace")
