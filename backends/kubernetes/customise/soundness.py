"""Whether a customised object is one that an API server takes: found before it is sent.

Fields and their types, items of lists that have one name, and parts of which only
one can be: an API server says less of what to do, or takes it and breaks later.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from backends.kubernetes.customise.fields import Shape
from backends.kubernetes.customise.paths import Item, Path, identify
from backends.kubernetes.customise.values import Reason


class Flaw(NamedTuple):
    """What is wrong with a part of an object."""

    reason: Reason
    path: Path
    text: str
    is_unknown_field: bool = False


class _Union(NamedTuple):
    """Fields of which one may be set; ``None`` for all that the definition has."""

    choices: frozenset[str] | None
    needs_one: bool = False


_HANDLERS: Final = frozenset({"exec", "httpGet", "tcpSocket", "sleep", "grpc"})
_SPECIAL: Final = frozenset({"name", "prefix"})
_UNIONS: Final[Mapping[str, _Union]] = {
    "Probe": _Union(_HANDLERS, needs_one=True),
    "LifecycleHandler": _Union(_HANDLERS, needs_one=True),
    "EnvVar": _Union(frozenset({"value", "valueFrom"})),
    "EnvVarSource": _Union(None, needs_one=True),
    "EnvFromSource": _Union(None, needs_one=True),
    "Volume": _Union(None),
    "VolumeProjection": _Union(None),
}
_CURE: Final = 'set the others to null in the patch, or use "$patch": "replace"'
_UNKNOWN_FIELD: Final = "is no field here; look for a spelling mistake"

_LEAVES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "s": ("a text", lambda v: isinstance(v, str)),
    "i": ("an integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "b": ("true or false", lambda v: isinstance(v, bool)),
    "q": (
        "an amount",
        lambda v: isinstance(v, str | int | float) and not isinstance(v, bool),
    ),
    "x": (
        "an integer or a text",
        lambda v: isinstance(v, str | int) and not isinstance(v, bool),
    ),
    "o": ("anything", lambda _: True),
}


def find_flaws(manifest: Mapping[str, Any], shape: Shape) -> Iterator[Flaw]:
    """Yield what is wrong with an object, from the top down.

    What the table does not know is not looked at. A null is as good as nothing.
    """
    yield from _look(manifest, shape, ())


def _look(value: Any, shape: Shape, path: Path) -> Iterator[Flaw]:  # noqa: ANN401 - any JSON
    if value is None:
        return
    if shape.struct or shape.declared:
        yield from _look_at_struct(value, shape, path)
    elif shape.values is not None:
        yield from _look_at_map(value, shape, path)
    elif shape.element is not None or shape.identity:
        yield from _look_at_list(value, shape, path)
    elif shape.leaf:
        name, fits = _LEAVES[shape.leaf]
        if not fits(value):
            yield Flaw(Reason.SCHEMA_INVALID, path, f"must be {name}")


def _look_at_struct(value: Any, shape: Shape, path: Path) -> Iterator[Flaw]:  # noqa: ANN401 - any JSON
    if not isinstance(value, Mapping):
        yield Flaw(Reason.SCHEMA_INVALID, path, "must be a map")
        return
    for name, inner in value.items():
        where = (*path, name)
        if shape.struct and name not in shape.members:
            yield Flaw(
                Reason.SCHEMA_INVALID, where, _UNKNOWN_FIELD, is_unknown_field=True
            )
        yield from _look(inner, shape.enter(name), where)
    yield from _look_at_union(value, shape, path)


def _look_at_union(
    value: Mapping[str, Any], shape: Shape, path: Path
) -> Iterator[Flaw]:
    union = _UNIONS.get(shape.struct)
    if union is None:
        return
    choices = union.choices or frozenset(shape.members.keys() - _SPECIAL)
    # An empty text is a value that was left out.
    found = sorted(n for n in choices & value.keys() if value[n] not in (None, ""))
    if len(found) > 1:
        text = f"has {' and '.join(found)}, may have one of them: {_CURE}"
        yield Flaw(Reason.UNION_CONFLICT, path, text)
    elif union.needs_one and not found:
        known = ", ".join(sorted(choices & shape.members.keys()))
        text = f"must have one of {known}"
        yield Flaw(Reason.UNION_CONFLICT, path, text)


def _look_at_map(value: Any, shape: Shape, path: Path) -> Iterator[Flaw]:  # noqa: ANN401 - any JSON
    if not isinstance(value, Mapping):
        yield Flaw(Reason.SCHEMA_INVALID, path, "must be a map")
        return
    for name, inner in value.items():
        yield from _look(inner, shape.enter(name), (*path, name))


def _look_at_list(value: Any, shape: Shape, path: Path) -> Iterator[Flaw]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list):
        yield Flaw(Reason.SCHEMA_INVALID, path, "must be a list")
        return
    seen: set[Item] = set()
    for index, inner in enumerate(value):
        if inner is None:
            yield Flaw(Reason.SCHEMA_INVALID, (*path, index), "must not be null")
            continue
        step = identify(inner, shape.identity) if shape.identity else None
        if shape.identity and step is None:
            keys = " and ".join(shape.identity)
            text = f"must be a map with {keys}"
            yield Flaw(Reason.SCHEMA_INVALID, (*path, index), text)
        elif step is not None and step in seen:
            text = "stands twice in its list: merge the two, or rename one"
            yield Flaw(Reason.SCHEMA_INVALID, (*path, step), text)
        if step is not None:
            seen.add(step)
        yield from _look(inner, shape.item, (*path, index if step is None else step))
