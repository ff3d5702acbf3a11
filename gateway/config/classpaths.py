"""Classes named by text: our paths, the peer's, and short names."""

import importlib
from typing import Any

from gateway.config.peer import MODULES, PEER, SHORT_NAMES, is_peer_module, load_name


def resolve_class(text: str) -> Any:  # noqa: ANN401 - the trait checks what it is
    """Return the object that ``text`` names.

    Parameters
    ----------
    text
        ``package.module.Class`` or ``package.module:Class``, the peer's paths
        included; or a short name such as ``simple`` or ``SimpleAuthenticator``.

    Raises
    ------
    ImportError
        If there is no such thing; the text says what there is.
    """
    path = text.strip().replace(":", ".")
    if short := _find_short_name(path):
        return load_name(*short)
    module, _, name = path.rpartition(".")
    if not module:
        raise ImportError(f"no class has the short name {text!r}; give its path")
    if is_peer_module(module):
        return load_name(module[len(PEER) :].lstrip("."), name)
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ImportError(f"module {module!r} has no {name!r}") from None


def _find_short_name(text: str) -> tuple[str, str] | None:
    if text in SHORT_NAMES:
        return SHORT_NAMES[text]
    for module, names in MODULES.items():
        if isinstance(names, dict) and text in names and text[:1].isupper():
            return module, text
    return None
