"""Which texts can name a user. Pure."""

import unicodedata

from gateway.domain.errors import Unauthenticated

# Generous for an e-mail address or a distinguished name; bounds log lines.
MAX_USER_NAME = 255


def parse_user_name(name: object) -> str:
    """Return ``name`` if it can name a user.

    Raises
    ------
    Unauthenticated
        If it is no text, is empty or too long, begins or ends with a blank, or
        holds control characters, line separators or lone surrogates.

    Examples
    --------
    >>> parse_user_name("zoë")
    'zoë'
    """
    if not isinstance(name, str) or not name:
        raise Unauthenticated("a user name is needed")
    if len(name) > MAX_USER_NAME:
        raise Unauthenticated(f"the user name is longer than {MAX_USER_NAME}")
    if name != name.strip():
        raise Unauthenticated("the user name begins or ends with a blank")
    if any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in name):
        raise Unauthenticated("the user name holds characters that no name has")
    return name


def is_storable(text: str) -> bool:
    r"""Return whether UTF-8 and every store can hold ``text``.

    Examples
    --------
    >>> is_storable("zoë"), is_storable("\ud800"), is_storable("\0")
    (True, False, False)
    """
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
