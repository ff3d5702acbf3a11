"""Node selector terms, with the scheduler's meaning, over a class's labels.

A pod has no node when it is made: what is matched is what its class of nodes is
declared to have.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from backends.kubernetes.customise.loading import LoadProblem, Path
from backends.kubernetes.customise.reading import (
    Fields,
    read_label_name,
    read_list,
    read_text,
)
from backends.kubernetes.customise.values import NodeClass, Requirement, Term

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}\Z")
_INT64: Final = range(-(2**63), 2**63)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def has_term(terms: Iterable[Term], labels: Mapping[str, str]) -> bool:
    """Return whether any of ``terms`` matches ``labels``.

    Examples
    --------
    >>> has_term([(Requirement("arch", "NotIn", ("arm64",)),)], {})
    True
    >>> has_term([()], {"arch": "arm64"})
    False
    """
    return any(
        term and all(_is_met(part, labels.get(part.label)) for part in term)
        for term in terms
    )


def read_terms(value: Any, path: Path) -> tuple[Term, ...]:  # noqa: ANN401 - anything
    """Return terms as they are written in a pod's affinity.

    Raises
    ------
    LoadProblem
        If one cannot be judged without a node, or is not sound.
    """
    terms = enumerate(read_list(value, path))
    return tuple(_read_term(term, (*path, index)) for index, term in terms)


def find_equal_classes(classes: Iterable[NodeClass]) -> tuple[str, str] | None:
    """Return two classes that no term can tell apart, by their names."""
    seen: dict[frozenset[tuple[str, str]], str] = {}
    for node_class in classes:
        labels = frozenset(node_class.labels.items())
        if labels in seen:
            return seen[labels], node_class.name
        seen[labels] = node_class.name
    return None


def _is_met(part: Requirement, label: str | None) -> bool:
    match part.operator:
        case "In":
            return label in part.values
        case "NotIn":
            return label not in part.values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case _:
            return _is_beyond(part, label)


def _is_beyond(part: Requirement, label: str | None) -> bool:
    number = None if label is None else _parse_integer(label)
    if number is None:
        return False
    limit = int(part.values[0])
    return number > limit if part.operator == "Gt" else number < limit


def _read_term(value: Any, path: Path) -> Term:  # noqa: ANN401 - anything
    if isinstance(value, Mapping) and "matchFields" in value:
        text = "no node is known when a pod is made: use matchExpressions"
        raise LoadProblem(text, (*path, "matchFields"))
    fields = Fields(value, path)
    term = fields.take("matchExpressions", _read_expressions, default=())
    fields.finish()
    for problem in fields.problems:
        raise problem
    return term


def _read_expressions(value: Any, path: Path) -> Term:  # noqa: ANN401 - anything
    found = enumerate(read_list(value, path))
    return tuple(_read_requirement(part, (*path, index)) for index, part in found)


def _read_requirement(value: Any, path: Path) -> Requirement:  # noqa: ANN401 - anything
    fields = Fields(value, path)
    fields.require("key", "operator")
    label = fields.take("key", read_label_name, default="")
    operator = fields.take("operator", read_text, default="")
    values = fields.take("values", _read_values, default=())
    fields.finish()
    for problem in fields.problems:
        raise problem
    wrong = _find_wrong_values(operator, values)
    if wrong is not None:
        raise LoadProblem(wrong, path)
    return Requirement(label, operator, values)


def _read_values(value: Any, path: Path) -> tuple[str, ...]:  # noqa: ANN401 - anything
    # Unlike other texts an empty one is a label's value.
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise LoadProblem("must be a list of texts: quote numbers", path)
    return tuple(value)


def _find_wrong_values(operator: str, values: tuple[str, ...]) -> str | None:
    match operator:
        case "In" | "NotIn" if not values:
            return f"{operator} must have values"
        case "Exists" | "DoesNotExist" if values:
            return f"{operator} must have no values"
        case "Gt" | "Lt" if [*map(_parse_integer, values)] in ([], [None]) or values[
            1:
        ]:
            return f"{operator} must have one integer as its value"
    if operator not in _OPERATORS:
        return f"operator must be one of {', '.join(_OPERATORS)}"
    return None


def _parse_integer(text: str) -> int | None:
    if _INTEGER.match(text) is None or int(text) not in _INT64:
        return None
    return int(text)
