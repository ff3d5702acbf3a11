"""What tells that an object was made of something else: order counts, form does not."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from backends.kubernetes.customise.values import Manifest, Patch
from backends.kubernetes.names import ANNOTATION_HASH, GROUP, hash_text

ANNOTATION_CUSTOMISATION: Final = f"{GROUP}/customization-hash"
# To be raised when the same patches make another object than before.
_RENDERER: Final = 1
_NOT_HASHED: Final = (ANNOTATION_CUSTOMISATION, ANNOTATION_HASH)


def hash_patches(applied: Iterable[tuple[Patch, Any]]) -> str:
    """Return what stands for the patches of one object, in their order.

    Parameters
    ----------
    applied
        Patches, each with its body as it was applied.
    """
    told = [
        (patch.name, patch.phase_name, patch.order, str(patch.type), body)
        for patch, body in applied
    ]
    return _hash((_RENDERER, told)) if told else ""


def hash_manifest(manifest: Mapping[str, Any]) -> str:
    """Return what stands for an object, apart from the hashes it carries."""
    metadata = dict(manifest["metadata"])
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name not in _NOT_HASHED
    }
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return _hash({**manifest, "metadata": metadata})


def stamp_patches(manifest: Manifest, digest: str) -> Manifest:
    """Return ``manifest``, changed, with the hash of its patches, if it has any."""
    if digest:
        annotations = manifest["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION_CUSTOMISATION] = digest
    return manifest


def _hash(value: object) -> str:
    return hash_text(msgspec.json.encode(value, order="sorted").decode())
