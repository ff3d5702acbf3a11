"""Strategic merge patch, from Kubernetes' public description of it.

Lists with a merge key are merged by it, and patches may hold directives:
``$patch``, ``$retainKeys``, ``$setElementOrder/<list>`` and
``$deleteFromPrimitiveList/<list>``. Where an API server tells items apart by more
than the merge key (ports, topology spread), so does this: upstream turns 8786/TCP
into 8786/UDP for one who adds UDP.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from backends.kubernetes.customise.differences import is_same
from backends.kubernetes.customise.fields import Shape
from backends.kubernetes.customise.merge import copy_json
from backends.kubernetes.customise.paths import Item, Path, identify
from backends.kubernetes.customise.values import Manifest, PatchFailure

DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"

Identify = Callable[[Any], Any]


def apply_strategic(
    base: Mapping[str, Any], patch: Mapping[str, Any], shape: Shape
) -> Manifest:
    """Return ``base`` with ``patch`` merged in; neither is changed nor shared.

    Parameters
    ----------
    shape
        Of the object: it knows which lists are merged.

    Raises
    ------
    PatchFailure
        If a directive has no meaning where it stands, or an item has no key.

    Notes
    -----
    New items come first, before those that were there, as they do upstream. A list
    that stands beside its own ``$deleteFromPrimitiveList`` is refused: upstream's
    result depends on chance then. So is ``$patch`` for the whole object.

    Where upstream makes what no API server takes, or loses what was asked for, this
    does what the directive says: directives inside a new item have their effect (they
    stay in it upstream), and a map with ``$patch: replace`` is there afterwards, also
    if there was none (upstream there is still none).
    """
    if DIRECTIVE in patch:
        raise PatchFailure((DIRECTIVE,), "must not stand at the top of a patch")
    return _merge_map(copy_json(base), copy_json(patch), shape, ())


def _merge_map(old: Manifest, patch: Manifest, shape: Shape, path: Path) -> Manifest:
    """Merge ``patch`` into ``old``, which is changed and returned."""
    match patch.pop(DIRECTIVE, None):
        case None:
            pass
        case "replace":
            return _settle_map(patch, shape, path)
        case "delete":
            return {}
        case _:
            raise PatchFailure((*path, DIRECTIVE), "must be replace or delete here")
    _retain(old, patch, path)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _order(old, patch, name, shape, path)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            _delete(old, patch, name, path)
        elif value is None:
            old.pop(name, None)
        else:
            _merge_member(old, name, value, shape.enter(name), (*path, name))
    return old


def _merge_member(old: Manifest, name: str, new: Any, shape: Shape, path: Path) -> None:  # noqa: ANN401 - any JSON
    if name.startswith("$"):
        raise PatchFailure(path, "is no directive")
    was = old.get(name)
    if isinstance(was, dict) and isinstance(new, dict):
        old[name] = _merge_map(was, new, shape, path)
    elif isinstance(was, list) and isinstance(new, list):
        old[name] = _merge_list(was, new, shape, path)
    elif _is_nothing(new):
        old.pop(name, None)
    else:
        old[name] = _settle(new, shape, path)


def _merge_list(old: list[Any], new: list[Any], shape: Shape, path: Path) -> list[Any]:
    if not shape.is_merged:
        return _settle_list(new, shape, path)
    if shape.identity:
        return _merge_items(old, new, shape, path)
    _refuse_maps([*old, *new], path)
    merged: list[Any] = []
    merged += (value for value in [*old, *new] if not _holds(merged, value))
    return _sort(merged, new, old, _freeze)


def _merge_items(old: list[Any], new: list[Any], shape: Shape, path: Path) -> list[Any]:
    names = _by_name(shape, path)
    items, doomed, is_replaced = _split(new, names, path)
    if is_replaced:
        return [_settle(item, shape.item, path) for item in items]
    kept = [item for item in old if names(item) not in doomed]
    merged = list(kept)
    # Of two with one name, which the checks of the result refuse, the first.
    places = {names(kept[i]): i for i in reversed(range(len(kept)))}
    for item in items:
        name = names(item)
        where = (*path, name)
        if name in places:
            place = places[name]
            merged[place] = _merge_map(merged[place], item, shape.item, where)
        else:
            places[name] = len(merged)
            merged.append(_settle(item, shape.item, where))
    return _sort(merged, items, kept, names)


def _split(
    new: Sequence[Any], names: Identify, path: Path
) -> tuple[list[Any], set[Item], bool]:
    """Return the items that are no directive, names to delete, and if to replace."""
    items: list[Any] = []
    doomed: set[Item] = set()
    is_replaced = False
    for item in new:
        kind = item.get(DIRECTIVE) if isinstance(item, dict) else None
        if kind == "replace":
            is_replaced = True
        elif kind == "delete":
            doomed.add(names(item))
        elif kind is not None:
            raise PatchFailure((*path, DIRECTIVE), "must be replace or delete")
        else:
            names(item)
            items.append(item)
    return items, doomed, is_replaced


def _retain(old: Manifest, patch: Manifest, path: Path) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    if not isinstance(kept, list):
        raise PatchFailure((*path, _RETAIN), "must be a list of names")
    for name, value in patch.items():
        is_directive = name.startswith((_DELETE, _ORDER))
        if value is not None and not is_directive and name not in kept:
            raise PatchFailure((*path, _RETAIN), f"must name {name}, which is set")
    for name in [name for name in old if name not in kept]:
        del old[name]


def _order(
    old: Manifest, patch: Manifest, directive: str, shape: Shape, path: Path
) -> None:
    """Sort a list as its directive says; takes both out of ``patch``."""
    wanted = patch.pop(directive)
    name = directive.removeprefix(_ORDER)
    inner, where = shape.enter(name), (*path, directive)
    is_changed = name in patch
    was, new = old.get(name), patch.pop(name, [])
    for value in (wanted, [] if was is None else was, new):
        if not isinstance(value, list):
            raise PatchFailure(where, "must be a list, of a list")
    if was is None and not is_changed:
        return
    names = _by_name(inner, where) if inner.identity else _freeze
    if not inner.identity:
        _refuse_maps([*wanted, *(was or []), *new], where)
    if new and wanted:
        _check_order(new, wanted, names, where)
    if was is None:
        merged = _settle(new, inner, where)
    elif is_changed:
        merged = _merge_list(was, new, inner, (*path, name))
    else:
        merged = was
    old[name] = _sort(merged, wanted, was or [], names)


def _check_order(
    new: list[Any], wanted: list[Any], names: Identify, path: Path
) -> None:
    items = [v for v in new if not (isinstance(v, dict) and DIRECTIVE in v)]
    rest = iter([names(value) for value in wanted])
    for item in items:
        if names(item) not in rest:
            raise PatchFailure(path, "must name the patch's items, in their order")


def _delete(old: Manifest, patch: Manifest, directive: str, path: Path) -> None:
    name, values = directive.removeprefix(_DELETE), patch[directive]
    if name in patch:
        text = f"must not stand beside {name}: give the list as a whole"
        raise PatchFailure((*path, directive), text)
    if not isinstance(values, list):
        raise PatchFailure((*path, directive), "must be a list")
    was = old.get(name)
    if isinstance(was, list):
        _refuse_maps([*was, *values], (*path, directive))
        old[name] = [value for value in was if not _holds(values, value)]


def _is_nothing(new: object) -> bool:
    """Return whether a map only says that what is there should not be."""
    if not isinstance(new, dict):
        return False
    return new.get(DIRECTIVE) == "delete" or new == {DIRECTIVE: "replace"}


def _settle(value: Any, shape: Shape, path: Path) -> Any:  # noqa: ANN401 - any JSON
    """Return what of a patch stays where nothing is that it could change."""
    if isinstance(value, dict):
        return _settle_map(value, shape, path)
    if isinstance(value, list):
        return _settle_list(value, shape, path)
    return value


def _settle_map(value: Manifest, shape: Shape, path: Path) -> Manifest:
    return _merge_map({}, value, shape, path)


def _settle_list(value: list[Any], shape: Shape, path: Path) -> list[Any]:
    if shape.is_merged and shape.identity:
        items, _, _ = _split(value, _by_name(shape, path), path)
        return [_settle(item, shape.item, path) for item in items]
    if any(isinstance(item, dict) and DIRECTIVE in item for item in value):
        raise PatchFailure((*path, DIRECTIVE), "has no meaning: the list is replaced")
    return [_settle(item, shape.item, path) for item in value]


def _sort(
    merged: Sequence[Any], wanted: Sequence[Any], old: Sequence[Any], names: Identify
) -> list[Any]:
    """Return ``merged`` with what is wanted in its order, the rest as in ``old``.

    Of two that stood in ``old`` the first stays first; what is new goes before.
    """
    ranks = {names(value): rank for rank, value in reversed([*enumerate(wanted)])}
    places = {names(value): place for place, value in reversed([*enumerate(old)])}
    mine = sorted(
        (value for value in merged if names(value) in ranks),
        key=lambda value: ranks[names(value)],
    )
    rest = [value for value in merged if names(value) not in ranks]
    rest.sort(key=lambda value: places.get(names(value), -1))
    result: list[Any] = []
    for value in mine:
        place = places.get(names(value), -1)
        while rest and -1 < places.get(names(rest[0]), -1) < place:
            result.append(rest.pop(0))
        result.append(value)
    return result + rest


def _by_name(shape: Shape, path: Path) -> Identify:
    def identify_or_refuse(item: Any) -> Item:  # noqa: ANN401 - any JSON
        found = identify(item, shape.identity)
        if found is None:
            keys = " and ".join(shape.identity)
            raise PatchFailure(path, f"each item must be a map with {keys}")
        return found

    return identify_or_refuse


def _freeze(value: Any) -> Hashable:  # noqa: ANN401 - any scalar
    return (type(value), str(value))


def _holds(values: Sequence[Any], value: Any) -> bool:  # noqa: ANN401 - any JSON
    return any(is_same(value, other) for other in values)


def _refuse_maps(values: Sequence[Any], path: Path) -> None:
    if any(isinstance(value, dict | list) for value in values):
        raise PatchFailure(path, "must hold scalars alone")
