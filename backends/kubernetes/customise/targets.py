"""Which objects a patch is for: read, checked, and matched against a member."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from backends.kubernetes.customise.loading import LoadProblem, Path
from backends.kubernetes.customise.paths import has_match
from backends.kubernetes.customise.reading import (
    Fields,
    choose,
    read_labels,
    read_list,
    read_text,
    read_texts,
)
from backends.kubernetes.customise.selectors import has_term, read_terms
from backends.kubernetes.customise.values import (
    Context,
    Member,
    Target,
    TargetComponent,
)

ANY: Final = "*"
# The cluster's headless Service owns all else, so it has two names.
_ALIASES: Final = {"anchor": "service"}


class Kind(NamedTuple):
    """A kind of object that is made for a cluster."""

    group: str
    kind: str


KINDS: Final[Mapping[TargetComponent, Kind]] = {
    TargetComponent.SCHEDULER: Kind("", "Pod"),
    TargetComponent.WORKER: Kind("", "Pod"),
    TargetComponent.CREDENTIALS: Kind("", "Secret"),
    TargetComponent.PLUGIN: Kind("", "ConfigMap"),
    TargetComponent.SERVICE: Kind("", "Service"),
    TargetComponent.INGRESS: Kind("traefik.io", "IngressRoute"),
    TargetComponent.INGRESS_TCP: Kind("traefik.io", "IngressRouteTCP"),
    TargetComponent.MIDDLEWARE: Kind("traefik.io", "Middleware"),
    TargetComponent.NETWORK_POLICY: Kind("networking.k8s.io", "NetworkPolicy"),
}


def is_target(target: Target, member: Member, context: Context) -> bool:
    """Return whether a patch with ``target`` is for ``member``."""
    return (
        _is_object(target, member)
        and _is_namespace(target, context)
        and _is_user(target, context)
        and _is_node_class(target, context)
    )


def list_components(target: Target) -> tuple[TargetComponent, ...]:
    """Return the components that ``target`` can be for, by component and kind."""
    return tuple(
        component
        for component, (group, kind) in KINDS.items()
        if (target.components is None or component in target.components)
        and target.kind in (None, kind)
        and target.group in (None, group)
    )


def read_target(value: Any, path: Path, node_classes: Collection[str]) -> Target:  # noqa: ANN401 - anything
    """Return a target.

    Parameters
    ----------
    node_classes
        Names of those that there are.

    Raises
    ------
    LoadProblem
        If it is empty, matches nothing that is made, or is not sound.
    """
    fields = Fields(value, path)
    namespaces = fields.take("namespaces", _read_namespaces, default=(None, None))
    users = fields.take("users", _read_users, default=(None, None))
    classes = fields.take("nodeClass", read_texts, default=())
    target = Target(
        components=fields.take("component", _read_components, default=None),
        kind=fields.take("kind", _read_kind, default=None),
        group=fields.take("group", _read_group, default=None),
        name=fields.take("name", read_text, default=None),
        namespace_names=namespaces[0],
        namespace_labels=namespaces[1],
        user_names=users[0],
        user_groups=users[1],
        node_classes=frozenset(classes) or None,
        terms=fields.take("nodeSelectorTerms", read_terms, default=None),
    )
    fields.finish()
    for problem in fields.problems:
        raise problem
    if not {"component", "kind"} & value.keys():
        text = 'must hold component or kind; write "*" for each of them'
        raise LoadProblem(text, path)
    if not list_components(target):
        raise LoadProblem("matches nothing that is ever made", path)
    _check_classes(classes, node_classes, (*path, "nodeClass"))
    return target


def _is_object(target: Target, member: Member) -> bool:
    if member.component not in list_components(target):
        return False
    metadata = member.manifest["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return target.name is None or has_match(target.name, name)


def _is_namespace(target: Target, context: Context) -> bool:
    globs, labels = target.namespace_names, target.namespace_labels
    if globs is not None and not _has_any(globs, [context.namespace]):
        return False
    found = context.namespace_labels
    return all(found.get(name) == value for name, value in (labels or {}).items())


def _is_user(target: Target, context: Context) -> bool:
    if target.user_names is None and target.user_groups is None:
        return True
    return _has_any(target.user_names or (), [context.user]) or _has_any(
        target.user_groups or (), context.groups
    )


def _is_node_class(target: Target, context: Context) -> bool:
    found = context.node_class
    if target.node_classes is not None and (
        found is None or found.name not in target.node_classes
    ):
        return False
    if target.terms is None:
        return True
    return has_term(target.terms, {} if found is None else found.labels)


def _has_any(globs: Iterable[str], texts: Collection[str]) -> bool:
    return any(has_match(glob, text) for glob in globs for text in texts)


def _read_components(value: Any, path: Path) -> frozenset[TargetComponent] | None:  # noqa: ANN401 - anything
    if value == ANY:
        return None
    read = choose(TargetComponent)
    found = enumerate([value] if isinstance(value, str) else read_list(value, path))
    return frozenset(read(_ALIASES.get(str(v), v), (*path, i)) for i, v in found)


def _read_group(value: Any, path: Path) -> str:  # noqa: ANN401 - anything
    # The group of Pods is the empty text.
    return "" if value == "" else read_text(value, path)


def _read_namespaces(
    value: Any,  # noqa: ANN401 - anything
    path: Path,
) -> tuple[tuple[str, ...] | None, Mapping[str, str] | None]:
    fields = Fields(value, path)
    names = fields.take("names", read_texts, default=None)
    labels = fields.take("matchLabels", read_labels, default=None)
    _finish_part(fields, path, is_empty=names is None and labels is None)
    return names, labels


def _read_users(
    value: Any,  # noqa: ANN401 - anything
    path: Path,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    fields = Fields(value, path)
    names = fields.take("names", read_texts, default=None)
    groups = fields.take("groups", read_texts, default=None)
    _finish_part(fields, path, is_empty=names is None and groups is None)
    return names, groups


def _finish_part(fields: Fields, path: Path, *, is_empty: bool) -> None:
    fields.finish()
    for problem in fields.problems:
        raise problem
    if is_empty:
        raise LoadProblem("must not be empty: leave it out", path)


def _check_classes(wanted: Iterable[str], known: Collection[str], path: Path) -> None:
    for index, name in enumerate(wanted):
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            text = f"there is no node class {name!r:.60}; there are: {there}"
            raise LoadProblem(text, (*path, index))


def _read_kind(value: Any, path: Path) -> str | None:  # noqa: ANN401 - anything
    known = sorted({kind.kind for kind in KINDS.values()})
    if value == ANY:
        return None
    if value not in known:
        raise LoadProblem(f'must be one of {", ".join(known)}, or "*"', path)
    return str(value)
