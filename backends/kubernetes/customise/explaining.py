"""Which source has set which field, for people. Names and places, never values."""

from collections.abc import Iterator
from typing import NamedTuple

from backends.kubernetes.customise.differences import list_leaves
from backends.kubernetes.customise.fields import ListKeys, shape_of
from backends.kubernetes.customise.paths import Path, format_path
from backends.kubernetes.customise.values import Customised, Origin


class Explained(NamedTuple):
    """A field, and who set it; ``None`` for the gateway itself."""

    path: Path
    origin: Origin | None

    def format(self) -> str:
        """Return it as one line."""
        if self.origin is None:
            return f"{format_path(self.path)}: gateway"
        source, patch, phase = self.origin.source, self.origin.patch, self.origin.phase
        return f"{format_path(self.path)}: {source}, patch {patch} ({phase})"


def explain(customised: Customised, list_identities: ListKeys) -> Iterator[Explained]:
    """Yield each field of an object with who set it last.

    Parameters
    ----------
    list_identities
        As in the context that the object was made with.
    """
    shape = shape_of(customised.manifest, list_identities)
    for path in list_leaves(customised.manifest, shape):
        yield Explained(path, _find_origin(path, customised))


def _find_origin(path: Path, customised: Customised) -> Origin | None:
    for origin in reversed(customised.origins):
        if path[: len(origin.path)] == origin.path:
            return origin
    return None
