"""Let ``import dask_gateway_server`` in a site's file find what is ours.

The finder stands last, so where the real package is installed that one is
found. Nothing of that name is installed by us.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from typing_extensions import override

from gateway.config.peer import (
    MODULES,
    PEER,
    Later,
    find_names,
    is_peer_module,
    load_name,
)


class _PeerLoader(Loader):
    @override
    def exec_module(self, module: ModuleType) -> None:
        below = module.__name__[len(PEER) :].lstrip(".")
        names = find_names(below)

        def find_attribute(name: str) -> Any:  # noqa: ANN401 - classes, functions and modules
            submodule = f"{below}.{name}" if below else name
            if submodule in MODULES:
                return importlib.import_module(f"{PEER}.{submodule}")
            if name.startswith("__") and name not in names:
                raise AttributeError(name)
            return load_name(below, name)

        module.__getattr__ = find_attribute  # type: ignore[method-assign]  # PEP 562
        module.__all__ = [  # type: ignore[attr-defined]  # what `import *` takes
            n for n, t in names.items() if not isinstance(t, Later)
        ]


class PeerFinder(MetaPathFinder):
    """Finds the peer's modules as our own names for them."""

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not is_peer_module(fullname):
            return None
        find_names(fullname[len(PEER) :].lstrip("."))  # says what is missing
        return ModuleSpec(fullname, _PeerLoader(), is_package=True)


def has_real_peer() -> bool:
    """Return whether ``dask_gateway_server`` itself is installed."""
    return PathFinder.find_spec(PEER) is not None


def install_peer_names() -> PeerFinder:
    """Let the peer's names be found from now on.

    The gateway's process keeps it: handlers import while they serve.
    """
    for finder in sys.meta_path:
        if isinstance(finder, PeerFinder):
            return finder
    finder = PeerFinder()
    sys.meta_path.append(finder)
    return finder


@contextmanager
def peer_names() -> Iterator[None]:
    """Let the peer's names be found while this holds, and not after it."""
    was_there = any(isinstance(f, PeerFinder) for f in sys.meta_path)
    finder = install_peer_names()
    try:
        yield
    finally:
        if not was_there:
            sys.meta_path.remove(finder)
            for name, module in list(sys.modules.items()):
                if is_peer_module(name) and _is_ours(module):
                    del sys.modules[name]


def _is_ours(module: ModuleType) -> bool:
    return isinstance(getattr(module, "__loader__", None), _PeerLoader)
