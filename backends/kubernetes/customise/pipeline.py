"""The one way by which a member gets its patches: from nothing, each time.

Base, admin's defaults, admin's hook, users' patches as far as the policy goes,
what the admin enforces; then what may not be is refused, and never put right in
silence. Nothing is kept of a member that is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from backends.kubernetes.customise.dense import densify, thin
from backends.kubernetes.customise.differences import Change, ChangeKind, find_changes
from backends.kubernetes.customise.fields import Shape, is_typed, shape_of
from backends.kubernetes.customise.hashes import hash_patches, stamp_patches
from backends.kubernetes.customise.json_patch import apply_json
from backends.kubernetes.customise.loading import LoadProblem, check_value
from backends.kubernetes.customise.merge import apply_merge, copy_json, drop_nulls
from backends.kubernetes.customise.paths import Path
from backends.kubernetes.customise.policy import find_violation
from backends.kubernetes.customise.protected import (
    DEFAULT_CONTAINER,
    Layer,
    find_layer,
)
from backends.kubernetes.customise.sizes import check_size
from backends.kubernetes.customise.soundness import find_flaws
from backends.kubernetes.customise.strategic import apply_strategic
from backends.kubernetes.customise.targets import is_target
from backends.kubernetes.customise.values import (
    Context,
    Customised,
    Manifest,
    Member,
    Origin,
    Patch,
    PatchFailure,
    PatchType,
    Phase,
    Reason,
    Refused,
)
from backends.kubernetes.customise.variables import fill_variables, list_variables

_HOOK: Final = "member_hook"
_HOOK_SOURCE: Final = "config"
_USERS_OFF: Final = "users' patches are switched off: leave them out"


def customise(
    member: Member, patches: Sequence[Patch], context: Context
) -> Customised | Refused:
    """Return ``member`` with all patches that are for it, or why it must not be.

    Parameters
    ----------
    patches
        Of all sources, in any order.

    Notes
    -----
    The hook of the context is the admin's own code: all that it raises is caught
    here, and it should do no I/O.
    """
    try:
        return _customise(member, patches, context)
    except _Refusal as refusal:
        return refusal.refused


def sort_patches(patches: Iterable[Patch]) -> list[Patch]:
    """Return patches of one phase in the order in which they are applied."""
    return sorted(patches, key=lambda p: (p.order, p.source.rank, p.position))


class _Refusal(Exception):
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.format())
        self.refused = refused


@dataclass(slots=True)
class _Work:
    """A member on its way through the phases."""

    member: Member
    context: Context
    shape: Shape
    manifest: Manifest
    applied: list[tuple[Patch, Any]] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    unsafe: set[str] = field(default_factory=set)

    def refuse(
        self, reason: Reason, text: str, path: Path = (), origin: Origin | None = None
    ) -> NoReturn:
        patch, source = ("", "") if origin is None else (origin.patch, origin.source)
        title = self.member.title
        raise _Refusal(Refused(reason, title, text, patch, source, path))

    def blame(self, path: Path) -> Origin | None:
        """Return who changed the field, or what holds it, or what it holds, last."""
        for origin in reversed(self.origins):
            shared = min(len(path), len(origin.path))
            if path[:shared] == origin.path[:shared]:
                return origin
        return None


def _customise(
    member: Member, patches: Sequence[Patch], context: Context
) -> Customised | Refused:
    tenants = [patch for patch in patches if patch.source.is_tenant]
    mine = [patch for patch in patches if is_target(patch.target, member, context)]
    if tenants and not context.policy.is_enabled:
        first = tenants[0]
        return Refused(
            Reason.POLICY_VIOLATION,
            member.title,
            _USERS_OFF,
            first.name,
            first.source.name,
        )
    base = copy_json(member.manifest)
    if not mine and context.hook is None:
        return Customised(base)
    work = _Work(
        member, context, shape_of(base, context.list_identities), copy_json(base)
    )
    densify(work.manifest)
    admins = [patch for patch in mine if not patch.source.is_tenant]
    _apply_admins(work, [p for p in admins if p.phase is Phase.DEFAULT])
    _apply_hook(work)
    _apply_tenants(work, [patch for patch in mine if patch.source.is_tenant])
    _apply_admins(work, [p for p in admins if p.phase is Phase.ENFORCE])
    return _finish(work, base)


def _apply_admins(work: _Work, patches: Sequence[Patch]) -> None:
    for patch in sort_patches(patches):
        before = work.manifest
        changes = _apply(work, patch)
        for change, layer in _find_layers(work, before, changes):
            if layer is Layer.CONTRACT and patch.allow_unsafe:
                work.unsafe.add(patch.name)
            else:
                origin = _trace(change, patch)
                work.refuse(Reason.PROTECTED_FIELD, str(layer), change.path, origin)


def _apply_hook(work: _Work) -> None:
    hook, before = work.context.hook, work.manifest
    if hook is None:
        return
    origin = Origin((), ChangeKind.REPLACED, _HOOK, _HOOK_SOURCE, "hook")
    try:
        after = copy_json(hook(copy_json(before), work.context))
    except Exception as error:  # noqa: BLE001 - an admin's code may raise anything
        work.refuse(Reason.HOOK_FAILED, f"raised {type(error).__name__}", (), origin)
    if not isinstance(after, dict):
        work.refuse(Reason.HOOK_FAILED, "must return the object", (), origin)
    try:
        check_value(after)
        check_size(after)
    except (LoadProblem, PatchFailure) as problem:
        work.refuse(Reason.HOOK_FAILED, problem.text, problem.path, origin)
    work.manifest = after
    changes = find_changes(before, after, work.shape)
    work.origins += (
        Origin(c.path, c.kind, _HOOK, _HOOK_SOURCE, "hook") for c in changes
    )
    for change, layer in _find_layers(work, before, changes):
        work.refuse(Reason.PROTECTED_FIELD, str(layer), change.path, origin)


def _apply_tenants(work: _Work, patches: Sequence[Patch]) -> None:
    before = work.manifest
    if not patches:
        return
    for patch in sort_patches(patches):
        _apply(work, patch)
    changes = find_changes(before, work.manifest, work.shape)
    for change, layer in _find_layers(work, before, changes):
        origin = work.blame(change.path)
        work.refuse(Reason.PROTECTED_FIELD, str(layer), change.path, origin)
    for change in changes:
        text = find_violation(change, work.manifest, work.context.policy)
        if text is not None:
            origin = work.blame(change.path)
            work.refuse(Reason.POLICY_VIOLATION, text, change.path, origin)


def _apply(work: _Work, patch: Patch) -> Sequence[Change]:
    """Apply one patch, and return and note what it changed."""
    before = work.manifest
    try:
        body = fill_variables(patch.body, patch.type, list_variables(work.context))
        after = _merge(work, patch.type, body)
        check_size(after)
    except PatchFailure as failure:
        refused = Refused(
            failure.reason,
            work.member.title,
            failure.text,
            patch.name,
            patch.source.name,
            failure.path,
        )
        raise _Refusal(refused) from failure
    changes = find_changes(before, after, work.shape)
    work.manifest = after
    work.applied.append((patch, body))
    work.origins += (_trace(change, patch) for change in changes)
    return changes


def _merge(work: _Work, kind: PatchType, body: Any) -> Manifest:  # noqa: ANN401 - any JSON
    if kind is PatchType.JSON:
        return apply_json(work.manifest, body)
    if kind is PatchType.MERGE:
        merged: Manifest = apply_merge(work.manifest, body)
        return merged
    base = work.member.manifest
    name = base["kind"]
    if not is_typed(base) and name not in work.context.list_identities:
        text = f"strategic has no list keys for {name}: use merge"
        raise PatchFailure((), text)
    return apply_strategic(work.manifest, body, work.shape)


def _find_layers(
    work: _Work, before: Mapping[str, Any], changes: Iterable[Change]
) -> Iterable[tuple[Change, Layer]]:
    for change in changes:
        layer = find_layer(change, work.member, before, work.manifest, work.shape)
        if layer is not None:
            yield change, layer


def _trace(change: Change, patch: Patch) -> Origin:
    return Origin(
        change.path, change.kind, patch.name, patch.source.name, patch.phase_name
    )


def _finish(work: _Work, base: Manifest) -> Customised:
    work.manifest = drop_nulls(work.manifest)
    lenient = {patch.name for patch, _ in work.applied if patch.allow_unsafe}
    for flaw in find_flaws(work.manifest, work.shape):
        origin = work.blame(flaw.path)
        # A field that is younger than the table is an admin's to vouch for.
        if flaw.is_unknown_field and origin is not None and origin.patch in lenient:
            work.unsafe.add(origin.patch)
        else:
            work.refuse(flaw.reason, flaw.text, flaw.path, origin)
    thin(work.manifest, base)
    _name_container(work)
    digest = hash_patches(work.applied)
    return Customised(
        stamp_patches(work.manifest, digest),
        tuple(patch.name for patch, _ in work.applied),
        digest,
        tuple(work.origins),
        tuple(sorted(work.unsafe)),
    )


def _name_container(work: _Work) -> None:
    """Say which container is Dask's, where a sidecar may stand before it."""
    contract = work.member.contract
    if contract is not None and _count_containers(work.manifest) > 1:
        annotations = work.manifest["metadata"].setdefault("annotations", {})
        annotations[DEFAULT_CONTAINER] = contract.container


def _count_containers(pod: Manifest) -> int:
    # A patch that is allowed to be unsafe may have taken them all.
    return len(pod.get("spec", {}).get("containers", ()))
