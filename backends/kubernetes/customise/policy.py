"""What users' patches may change, judged by the difference that they make.

Not by their text: a whole part that is replaced, moved or copied changes fields
that no text names.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from backends.kubernetes.crd.quantities import parse_quantity
from backends.kubernetes.customise.differences import Change, ChangeKind
from backends.kubernetes.customise.loading import LoadProblem
from backends.kubernetes.customise.paths import (
    Item,
    ItemPattern,
    Path,
    Rule,
    RuleStep,
    format_rule,
    identify,
    is_covered,
)
from backends.kubernetes.customise.values import Policy
from backends.kubernetes.names import SCHEDULER_CONTAINER, WORKER_CONTAINER

_AMOUNTS: Final = ("limits", "requests")

# What is harmless in the hands of whoever runs code in the pod anyway: variables,
# except those of Dask, and annotations with a prefix that nothing else reads.
DEFAULT_RULES: Final[tuple[Rule, ...]] = (
    *(
        (
            *("spec", "containers", ItemPattern((("name", container),))),
            *("env", ItemPattern((("name", "*"),)), "value"),
        )
        for container in (SCHEDULER_CONTAINER, WORKER_CONTAINER)
    ),
    ("metadata", "annotations", "user.daskfleet.io/*"),
)


def find_violation(
    change: Change, after: Mapping[str, Any], policy: Policy
) -> str | None:
    """Return why users may not make ``change``; protected fields are not looked at.

    Parameters
    ----------
    after
        The object with the change.
    """
    value = _find(after, change.path)
    if any(_is_secret(word) for word in (*_words(change.path), *_names_in(value))):
        return "tells of a Secret, which users' patches never may"
    if not any(is_covered(change.path, rule) for rule in policy.rules):
        return f"is not among the fields that users may set: {_list_rules(policy)}"
    if "resources" in change.path:
        return _find_amount_problem(change, value, policy)
    return None


def parse_rules(value: object) -> tuple[Rule, ...]:
    """Return rules, as a configuration has them.

    Parameters
    ----------
    value
        A list of paths: lists of globs, and of maps of globs for items of lists.

    Raises
    ------
    LoadProblem
        If one is none, or opens a whole object.

    Examples
    --------
    >>> parse_rules([["spec", "tolerations"]])
    (('spec', 'tolerations'),)
    """
    if not isinstance(value, list | tuple):
        raise LoadProblem("must be a list of paths")
    return tuple(_parse_rule(rule, index) for index, rule in enumerate(value))


def _parse_rule(value: object, index: int) -> Rule:
    if not isinstance(value, list | tuple) or len(value) < 2:  # noqa: PLR2004 - a part of a part
        raise LoadProblem("must be a list of at least two steps", (index,))
    rule = tuple(_parse_step(step, (index, i)) for i, step in enumerate(value))
    if rule[0] not in ("spec", "metadata"):
        raise LoadProblem("must begin with spec or metadata", (index, 0))
    return rule


def _parse_step(value: object, path: tuple[int, ...]) -> RuleStep:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, Mapping) or not value:
        raise LoadProblem("must be a text, or a map that names an item", path)
    if not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise LoadProblem("must hold texts alone", path)
    return ItemPattern(tuple(value.items()))


def _list_rules(policy: Policy) -> str:
    return ", ".join(map(format_rule, policy.rules)) or "none"


def _find_amount_problem(change: Change, value: object, policy: Policy) -> str | None:
    kind, name = change.path[-2:]
    if change.kind is ChangeKind.REMOVED or kind not in _AMOUNTS:
        return "must be limits and requests, each of them an amount"
    ceiling = policy.ceilings.get(str(name))
    if ceiling is None:
        return "is a resource that users' patches have no limit for"
    try:
        amount = parse_quantity(value)
    except ValueError:
        return "is no amount; give one such as 2 or 2Gi"
    if not 0 <= amount <= ceiling:
        return f"must be between 0 and {ceiling.normalize():f}"
    return None


def _is_secret(word: str) -> bool:
    folded = word.lower()
    return "secret" in folded or folded.startswith("serviceaccount")


def _words(path: Path) -> Iterator[str]:
    # A label's or an annotation's name is anyone's own.
    if path[:1] != ("metadata",):
        yield from (step for step in path if isinstance(step, str))


def _names_in(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names_in(inner)


def _find(value: Any, path: Path) -> Any:  # noqa: ANN401 - any JSON
    for step in path:
        if isinstance(step, Item):
            names = [name for name, _ in step.pairs]
            value = _find_item(value, step, names)
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _find_item(value: Any, step: Item, names: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON
    items = value if isinstance(value, list) else ()
    return next((item for item in items if identify(item, names) == step), None)
