"""Variables of a patch's texts: put in after it was read, so they change no structure.

``$(cluster.name)``, ``$(cluster.namespace)``, ``$(user.name)`` and ``$(node.class)``
stand in values only. Kubernetes' own ``$(NAME)`` has no dot and is left alone, as
is what follows ``$$``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from backends.kubernetes.customise.values import (
    Context,
    PatchFailure,
    PatchType,
    Reason,
)

VARIABLES: Final = ("cluster.name", "cluster.namespace", "user.name", "node.class")

_REFERENCE: Final = re.compile(r"\$\$|\$\((?P<name>[^()\s]*\.[^()\s]*)\)")


def find_variable_problem(
    body: object, kind: PatchType
) -> tuple[tuple[Any, ...], str] | None:
    """Return where a variable stands that is none, or in a place without variables.

    Returns
    -------
    tuple or None
        The path in the patch, and what is wrong.
    """
    known = dict.fromkeys(VARIABLES, "")
    try:
        fill_variables(body, kind, known)
    except PatchFailure as failure:
        return failure.path, failure.text
    return None


def list_variables(context: Context) -> dict[str, str]:
    """Return the values of the variables that the context has."""
    found = {
        "cluster.name": context.cluster,
        "cluster.namespace": context.namespace,
        "user.name": context.user,
    }
    if context.node_class is not None:
        found["node.class"] = context.node_class.name
    return found


def fill_variables(body: Any, kind: PatchType, values: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy of ``body`` with the variables' values.

    Of an operation of a JSON patch only the ``value`` is filled, and no directive
    of a strategic patch: both decide what is changed.

    Raises
    ------
    PatchFailure
        If a variable has no value, stands in a key, or its value would be read by
        Kubernetes as a reference to something else.

    Examples
    --------
    >>> body = {"a": "x-$(user.name) $(HOME)"}
    >>> fill_variables(body, PatchType.MERGE, {"user.name": "al"})
    {'a': 'x-al $(HOME)'}
    """
    if kind is not PatchType.JSON:
        return _fill(body, values, ())
    return [
        {
            key: _fill(value, values, (index, key)) if key == "value" else value
            for key, value in operation.items()
        }
        for index, operation in enumerate(body)
    ]


def _fill(value: Any, values: Mapping[str, str], path: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _resolve(found, values, path), value)
    if isinstance(value, Mapping):
        filled = {}
        for key, inner in value.items():
            if any(found["name"] in VARIABLES for found in _REFERENCE.finditer(key)):
                text = "variables stand in values, not in names"
                raise PatchFailure((*path, key), text, Reason.PATCH_INVALID)
            is_directive = key.startswith("$")
            filled[key] = inner if is_directive else _fill(inner, values, (*path, key))
        return filled
    if isinstance(value, Sequence):
        return [_fill(v, values, (*path, i)) for i, v in enumerate(value)]
    return value


def _resolve(
    found: re.Match[str], values: Mapping[str, str], path: tuple[Any, ...]
) -> str:
    name = found["name"]
    if name is None:
        return found[0]
    if name not in values:
        if name in VARIABLES:
            text = f"$({name}) has no value for this object"
        else:
            text = f"$({name}) is no variable; there are {', '.join(VARIABLES)}"
        raise PatchFailure(path, text, Reason.PATCH_INVALID)
    if "$" in values[name]:
        raise PatchFailure(path, f"the value of $({name}) must not hold $")
    return values[name]
