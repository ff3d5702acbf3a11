"""What the fields of an object are, and which lists have items with a name.

The table is static: it is compared with a live API server in the tests, and grew
in no release of Kubernetes in a way that changed what was there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Self

from backends.kubernetes.customise.field_table import FIELD_TABLE

_TYPE: Final = re.compile(
    r"(?P<nest>(?:\[\]|\{\})*)(?P<last>\w+)(?:(?P<sign>[+:])(?P<keys>[\w,]*))?\Z"
)
_LEAVES: Final = frozenset("sibnqxo")
_ROOTS: Final = {
    ("v1", "Pod"): "Pod",
    ("v1", "Service"): "Service",
    ("v1", "Secret"): "Secret",
    ("v1", "ConfigMap"): "ConfigMap",
    ("networking.k8s.io/v1", "NetworkPolicy"): "NetworkPolicy",
}

# By kind and the list's path: names of the fields that tell its items apart.
ListKeys = Mapping[str, Mapping[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at one place of an object; nothing known if it is bare.

    Parameters
    ----------
    leaf
        Code of a scalar: one of ``s i b n q x``; ``o`` for anything.
    struct
        Name of a definition in the table.
    element, values
        Of a list's items, of a map's values.
    identity
        Names of the fields that tell the list's items apart.
    is_merged
        Whether a strategic merge patch merges the list.
    declared
        Members of a kind that the table does not have; others may be there.
    """

    leaf: str = ""
    struct: str = ""
    element: Self | None = None
    values: Self | None = None
    identity: tuple[str, ...] = ()
    is_merged: bool = False
    declared: Mapping[str, Self] = field(default_factory=dict)

    @property
    def members(self) -> "Mapping[str, Shape]":
        """What it has by name, as far as that is known."""
        return _read_table()[self.struct] if self.struct else self.declared

    def enter(self, name: str) -> "Shape":
        """Return what may stand at ``name`` of a map."""
        if self.values is not None:
            return self.values
        return self.members.get(name, UNKNOWN)

    @property
    def item(self) -> "Shape":
        """What may be an item of a list."""
        return UNKNOWN if self.element is None else self.element


UNKNOWN: Final = Shape()

# For differences alone: which route was changed, instead of all of them.
_ROUTES: Final[ListKeys] = {
    "IngressRoute": {("spec", "routes"): ("match",)},
    "IngressRouteTCP": {("spec", "routes"): ("match",)},
}


def is_typed(manifest: Mapping[str, Any]) -> bool:
    """Return whether the table has the object's kind."""
    return (manifest.get("apiVersion"), manifest.get("kind")) in _ROOTS


def shape_of(manifest: Mapping[str, Any], list_identities: ListKeys) -> Shape:
    """Return the shape of a whole object.

    Parameters
    ----------
    list_identities
        What an admin declares of kinds that the table does not have.
    """
    root = _ROOTS.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    if root is not None:
        return Shape(struct=root)
    kind = manifest.get("kind", "")
    metadata = {"metadata": Shape(struct="ObjectMeta")}
    shape = Shape(declared=metadata)
    for path, identity in _ROUTES.get(kind, {}).items():
        shape = _declare(shape, path, Shape(identity=identity))
    for path, identity in list_identities.get(kind, {}).items():
        shape = _declare(shape, path, Shape(identity=identity, is_merged=True))
    return shape


def _declare(shape: Shape, path: tuple[str, ...], found: Shape) -> Shape:
    if not path:
        return found
    inner = _declare(shape.enter(path[0]), path[1:], found)
    return Shape(declared={**shape.declared, path[0]: inner})


@cache
def _read_table() -> Mapping[str, Mapping[str, Shape]]:
    table = {}
    for paragraph in FIELD_TABLE.strip().split("\n\n"):
        name, *words = paragraph.split()
        pairs = (word.split("=", 1) for word in words)
        table[name] = {name: _parse_type(text) for name, text in pairs}
    return table


def _parse_type(text: str) -> Shape:
    found = _TYPE.match(text)
    assert found is not None, text  # noqa: S101 - the table is our own
    last = found["last"]
    shape = Shape(leaf=last) if last in _LEAVES else Shape(struct=last)
    for sign in reversed(re.findall(r"\[\]|\{\}", found["nest"])):
        shape = Shape(element=shape) if sign == "[]" else Shape(values=shape)
    if found["sign"] is None:
        return shape
    identity = tuple(name for name in found["keys"].split(",") if name)
    return Shape(
        element=shape.element, identity=identity, is_merged=found["sign"] == "+"
    )
