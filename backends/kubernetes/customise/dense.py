"""Parts that are always there while patches are applied.

A JSON patch can only add below what is there, so an object without a toleration
could get none. What nobody filled is taken away again: workers are sent and stored
a thousand times over.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from backends.kubernetes.customise.values import Manifest

_METADATA: Final[Mapping[str, type]] = {"labels": dict, "annotations": dict}
_SPEC: Final[Mapping[str, type]] = {
    "tolerations": list,
    "volumes": list,
    "initContainers": list,
    "imagePullSecrets": list,
    "nodeSelector": dict,
}
_CONTAINER: Final[Mapping[str, type]] = {
    "env": list,
    "volumeMounts": list,
    "args": list,
}


class _Place(NamedTuple):
    """Which map, by a name that patches do not change, and its member."""

    owner: str
    name: str


def densify(manifest: Manifest) -> Manifest:
    """Return ``manifest``, changed, with all parts that patches may count on.

    Examples
    --------
    >>> densify({"kind": "Service", "metadata": {"name": "s"}})["metadata"]
    {'name': 's', 'labels': {}, 'annotations': {}}
    """
    for _, owner, parts in _list_owners(manifest):
        for name, kind in parts.items():
            owner.setdefault(name, kind())
    return manifest


def thin(manifest: Manifest, base: Mapping[str, Any]) -> Manifest:
    """Return ``manifest``, changed, without the parts that stayed empty.

    Parameters
    ----------
    base
        Before `densify`: an empty part that it has stays.
    """
    kept = {
        _Place(title, name)
        for title, owner, parts in _list_owners(base)
        for name in parts
        if name in owner
    }
    for title, owner, parts in _list_owners(manifest):
        for name, kind in parts.items():
            if owner.get(name) == kind() and _Place(title, name) not in kept:
                del owner[name]
    return manifest


def _list_owners(
    manifest: Mapping[str, Any],
) -> Iterator[tuple[str, Any, Mapping[str, type]]]:
    yield "metadata", manifest["metadata"], _METADATA
    if manifest["kind"] == "Pod":
        spec = manifest.get("spec") or {}
        yield "spec", spec, _SPEC
        for container in spec.get("containers") or ():
            yield f"container {container['name']}", container, _CONTAINER
