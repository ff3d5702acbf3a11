"""The difference that a change of an object makes, field by field.

Items of a list that have a name are compared by it, other lists as one value;
their order counts. A part that was taken away is one change, at its top.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from backends.kubernetes.customise.fields import Shape
from backends.kubernetes.customise.paths import Item, Path, identify


class ChangeKind(StrEnum):
    """How a field differs."""

    ADDED = "added"
    REMOVED = "removed"
    REPLACED = "replaced"
    REORDERED = "reordered"


class Change(NamedTuple):
    """One field that differs; it never holds the field's value."""

    path: Path
    kind: ChangeKind


def find_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], shape: Shape
) -> tuple[Change, ...]:
    """Return how ``after`` differs from ``before``.

    Examples
    --------
    >>> find_changes({"a": {"b": 1}}, {"a": {"b": True}}, Shape())
    (Change(path=('a', 'b'), kind=<ChangeKind.REPLACED: 'replaced'>),)
    """
    return tuple(_compare(before, after, shape, ()))


def is_same(left: object, right: object) -> bool:
    """Return whether two JSON values are equal; ``1``, ``1.0`` and true are not."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            is_same(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return left == right


def list_leaves(value: object, shape: Shape, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each part of ``value`` that has no parts of its own."""
    items = _index(value, shape)
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from list_leaves(inner, shape.enter(name), (*path, name))
    elif items:
        for step, item in items.items():
            yield from _list_item(item, step, shape.item, (*path, step))
    else:
        yield path


def _list_item(
    item: Mapping[str, Any], step: Item, shape: Shape, path: Path
) -> Iterator[Path]:
    named = {name for name, _ in step.pairs}
    rest = {name: value for name, value in item.items() if name not in named}
    yield from list_leaves(rest, shape, path)


def _compare(
    before: object, after: object, shape: Shape, path: Path
) -> Iterator[Change]:
    if _is_written_alike(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _compare_maps(before, after, shape, path)
        return
    old, new = _index(before, shape), _index(after, shape)
    if old is not None and new is not None:
        yield from _compare_items(old, new, shape, path)
    elif not is_same(before, after):
        yield Change(path, ChangeKind.REPLACED)


def _compare_maps(
    before: Mapping[str, Any], after: Mapping[str, Any], shape: Shape, path: Path
) -> Iterator[Change]:
    for name in before:
        if name not in after:
            yield Change((*path, name), ChangeKind.REMOVED)
    for name, value in after.items():
        inner, where = shape.enter(name), (*path, name)
        if name in before:
            yield from _compare(before[name], value, inner, where)
        else:
            for leaf in list_leaves(value, inner, where):
                yield Change(leaf, ChangeKind.ADDED)


def _compare_items(
    before: Mapping[Item, Any], after: Mapping[Item, Any], shape: Shape, path: Path
) -> Iterator[Change]:
    if [s for s in before if s in after] != [s for s in after if s in before]:
        yield Change(path, ChangeKind.REORDERED)
    for step in before:
        if step not in after:
            yield Change((*path, step), ChangeKind.REMOVED)
    for step, item in after.items():
        where = (*path, step)
        if step in before:
            yield from _compare_maps(before[step], item, shape.item, where)
        else:
            for leaf in _list_item(item, step, shape.item, where):
                yield Change(leaf, ChangeKind.ADDED)


def _is_written_alike(left: object, right: object) -> bool:
    """Return whether two values are the same for sure; quick, for most parts are."""
    return left == right and msgspec.json.encode(left) == msgspec.json.encode(right)


def _index(value: object, shape: Shape) -> Mapping[Item, Any] | None:
    """Return a list's items by what tells them apart; ``None`` if that fails."""
    if not shape.identity or not isinstance(value, Sequence) or isinstance(value, str):
        return None
    found = {}
    for item in value:
        step = identify(item, shape.identity)
        if step is None or step in found:
            return None
        found[step] = item
    return found
