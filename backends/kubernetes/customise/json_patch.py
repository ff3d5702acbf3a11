"""JSON patch (RFC 6902), one operation after the other, within bounds."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonpatch
import jsonpointer

from backends.kubernetes.customise.merge import copy_json
from backends.kubernetes.customise.sizes import check_size
from backends.kubernetes.customise.values import Manifest, PatchFailure

_OPERATIONS: Final = {
    "add": {"value"},
    "remove": set[str](),
    "replace": {"value"},
    "move": {"from"},
    "copy": {"from"},
    "test": {"value"},
}


def find_operation_problem(operation: object) -> str | None:
    """Return what is wrong with the form of an operation."""
    if not isinstance(operation, Mapping):
        return "must be a map with op and path"
    name = operation.get("op")
    wants = _OPERATIONS.get(name) if isinstance(name, str) else None
    if wants is None:
        return f"op must be one of {', '.join(_OPERATIONS)}"
    for key in {"op", "path", *wants} - operation.keys():
        return f"lacks {key}"
    for key in operation.keys() - {"op", "path", *wants}:
        return f"{key} has no meaning in {name}"
    for key in {"path", "from"} & operation.keys():
        text = operation[key]
        if not isinstance(text, str) or (text and not text.startswith("/")):
            return f"{key} must be a JSON pointer such as /metadata/labels"
    return None


def apply_json(base: Mapping[str, Any], operations: Sequence[Any]) -> Manifest:
    """Return ``base`` after all ``operations``; neither is changed nor shared.

    Raises
    ------
    PatchFailure
        With the operation's index, if one fails or makes the object too large.

    Notes
    -----
    The library's own words are left out: they quote values, and those may be
    secrets.
    """
    result: Any = copy_json(base)
    for index, operation in enumerate(operations):
        try:
            # A copy: what is added would be shared with the patch.
            result = jsonpatch.apply_patch(
                result, [copy_json(operation)], in_place=True
            )
        except jsonpatch.JsonPatchTestFailed as error:
            text = f"{_tell(operation)}: the test failed"
            raise PatchFailure((index,), text) from error
        except (
            jsonpatch.JsonPatchException,
            jsonpointer.JsonPointerException,
        ) as error:
            text = f"{_tell(operation)}: there is no such place in the object"
            raise PatchFailure((index,), text) from error
        check_size(result)
    if not isinstance(result, dict):
        raise PatchFailure((), "must leave a map, not a list or a scalar")
    return result


def _tell(operation: Mapping[str, Any]) -> str:
    words = [
        operation["op"],
        *(operation[k] for k in ("from", "path") if k in operation),
    ]
    return " ".join(str(word) for word in words)
