"""Fields that no patch may change: who an object is, and what it does for its cluster.

Nothing is restored: whoever wrote the patch learns of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final

from backends.kubernetes.customise.differences import Change, ChangeKind, list_leaves
from backends.kubernetes.customise.fields import Shape
from backends.kubernetes.customise.paths import (
    Item,
    ItemPattern,
    Path,
    Rule,
    Step,
    identify,
    is_covered,
)
from backends.kubernetes.customise.values import Contract, Member, TargetComponent
from backends.kubernetes.names import GROUP, SEALED_LABELS

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


class Layer(StrEnum):
    """How well a field is protected, and what is said of it."""

    IDENTITY = "is set by the gateway and cannot be changed"
    CONTRACT = (
        "connects the object to its cluster; only an admin's patch with allowUnsafe: "
        "true may change it"
    )


_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
)
_IDENTITY: Final[tuple[Rule, ...]] = (
    ("apiVersion",),
    ("kind",),
    ("status",),
    *(("metadata", name) for name in _METADATA),
    *(("metadata", "labels", name) for name in sorted(SEALED_LABELS)),
    *(
        ("metadata", part, glob)
        for part in ("labels", "annotations")
        for glob in (f"{GROUP}/*", "applyset.kubernetes.io/*")
    ),
    ("metadata", "annotations", DEFAULT_CONTAINER),
)
_ANY_ITEM: Final = ItemPattern(())
_CONTRACTS: Final[Mapping[TargetComponent, tuple[Rule, ...]]] = {
    TargetComponent.CREDENTIALS: tuple(
        (name,) for name in ("data", "stringData", "type", "immutable")
    ),
    TargetComponent.PLUGIN: tuple(
        (name,) for name in ("data", "binaryData", "immutable")
    ),
    TargetComponent.SERVICE: (("spec", "selector"), ("spec", "ports")),
    # One of the middlewares asks for a login.
    TargetComponent.INGRESS: (
        ("spec", "routes", _ANY_ITEM, "services"),
        ("spec", "routes", _ANY_ITEM, "middlewares"),
    ),
    TargetComponent.MIDDLEWARE: (("spec",),),
    TargetComponent.INGRESS_TCP: (
        ("spec", "routes", _ANY_ITEM, "services"),
        ("spec", "tls"),
    ),
    TargetComponent.NETWORK_POLICY: (("spec", "podSelector"),),
}
_DASK: Final = ("command", "args", "ports", "restartPolicy", "restartPolicyRules")
_RESERVED: Final = ("dask_", "daskfleet_")


def find_layer(
    change: Change,
    member: Member,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    shape: Shape,
) -> Layer | None:
    """Return which layer ``change`` touches, if any.

    Parameters
    ----------
    before, after
        The objects that it is the difference of.
    shape
        Theirs.
    """
    paths = [change.path]
    if change.kind in (ChangeKind.REMOVED, ChangeKind.REPLACED):
        # What is taken away with all that it holds is not named part by part.
        paths += _leaves_at(before, shape, change.path)
        paths += _leaves_at(after, shape, change.path)
    if _has_any(paths, _IDENTITY):
        return Layer.IDENTITY
    rules = _CONTRACTS.get(member.component, ())
    contract = member.contract
    if contract is not None:
        rules = _list_rules(contract)
    if _has_any(paths, rules):
        return Layer.CONTRACT
    if contract is not None and any(_is_kept_free(path, contract) for path in paths):
        return Layer.CONTRACT
    return None


def _has_any(paths: Iterable[Path], rules: Iterable[Rule]) -> bool:
    return any(is_covered(path, rule) for path in paths for rule in rules)


@cache
def _list_rules(contract: Contract) -> tuple[Rule, ...]:
    container = ("spec", "containers", ItemPattern((("name", contract.container),)))
    return (
        ("spec", "restartPolicy"),
        *((*container, name) for name in _DASK),
        *(
            ("spec", "volumes", ItemPattern((("name", name),)))
            for name in contract.volumes
        ),
    )


def _is_kept_free(path: Path, contract: Contract) -> bool:
    """Return whether ``path`` is of a variable or a mount that only we may have."""
    container = Item((("name", contract.container),))
    match path:
        case ("spec", "containers", step, "env", Item(((_, name),)), *_):
            # Dask folds case and takes - for _, so one setting has many spellings.
            folded = str(name).lower().replace("-", "_")
            return step == container and folded.startswith(_RESERVED)
        case ("spec", "containers", step, "volumeMounts", Item(((_, place),)), *_):
            found = _split_path(str(place))
            ours = map(_split_path, contract.mounts)
            return step == container and any(found[: len(o)] == o for o in ours)
        case _:
            return False


def _split_path(text: str) -> list[str]:
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return parts


def _leaves_at(manifest: Mapping[str, Any], shape: Shape, path: Path) -> Iterator[Path]:
    value: Any = manifest
    for step in path:
        value = _enter(value, shape, step)
        shape = shape.item if isinstance(step, Item) else shape.enter(str(step))
    if value is not None:
        yield from list_leaves(value, shape, path)


def _enter(value: Any, shape: Shape, step: Step) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(step, Item):
        found = (v for v in value or () if identify(v, shape.identity) == step)
        return next(found, None)
    return value.get(step) if isinstance(value, Mapping) else None
