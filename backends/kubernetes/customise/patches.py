"""Lists of patches, read from what a text or a configuration says.

All patches of a list are looked at before it is refused, so that one round tells
all there is to mend.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from backends.kubernetes.customise.fields import ListKeys
from backends.kubernetes.customise.json_patch import find_operation_problem
from backends.kubernetes.customise.loading import (
    Document,
    LoadProblem,
    Path,
    check_value,
    load_document,
)
from backends.kubernetes.customise.paths import format_path
from backends.kubernetes.customise.reading import (
    Fields,
    choose,
    read_flag,
    read_order,
)
from backends.kubernetes.customise.strategic import DIRECTIVE
from backends.kubernetes.customise.targets import KINDS, list_components, read_target
from backends.kubernetes.customise.values import (
    Patch,
    PatchType,
    Phase,
    Source,
    Target,
    TargetComponent,
)
from backends.kubernetes.customise.variables import find_variable_problem

MOST_PATCH: Final = 16 * 1024
MOST_ADMIN_PATCHES: Final = 64
MOST_TENANT_PATCHES: Final = 16
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_ADMINS: Final = ("phase", "required", "allowUnsafe")
# What is in them is not the user's, and two of them are shared between users.
_SHUT: Final = frozenset(
    {
        TargetComponent.CREDENTIALS,
        TargetComponent.PLUGIN,
        TargetComponent.MIDDLEWARE,
    }
)
_NO_TARGET: Final = Target()
_ORDER: Final = 100


@dataclass(frozen=True, slots=True)
class PatchProblem:
    """Why a patch is not read.

    Parameters
    ----------
    source, patch
        Their names; a patch without a name is called after its position.
    path
        Of the field, in the patch.
    line
        In the source, from 1; ``None`` where it is not known.
    """

    source: str
    patch: str
    path: str
    line: int | None
    text: str

    def format(self) -> str:
        """Return it as one line.

        Examples
        --------
        >>> PatchProblem("file", "gpu", "target.kind", 7, "must be a text").format()
        'file, line 7, patch gpu: target.kind: must be a text'
        """
        line = "" if self.line is None else f", line {self.line}"
        patch = f", patch {self.patch}" if self.patch else ""
        where = f"{self.path}: " if self.path else ""
        return f"{self.source}{line}{patch}: {where}{self.text}"


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What patches may refer to.

    Parameters
    ----------
    node_classes
        Names of those that there are.
    list_identities
        What the admin declares of kinds without patch metadata.
    """

    node_classes: frozenset[str] = frozenset()
    list_identities: ListKeys = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The patches of one source; none are good while there are problems."""

    patches: tuple[Patch, ...] = ()
    problems: tuple[PatchProblem, ...] = ()


def load_patches(text: str, source: Source, settings: LoadSettings) -> Loaded:
    """Return the patches of a text: a map with ``patches``, JSON or YAML."""
    try:
        document = load_document(text)
    except LoadProblem as problem:
        return Loaded(problems=(_tell(problem, source, "", Document(None)),))
    fields = Fields(document.value, ())
    fields.require("patches")
    found = fields.take("patches", lambda value, _: value, default=None)
    fields.finish()
    if fields.problems:
        told = (_tell(problem, source, "", document) for problem in fields.problems)
        return Loaded(problems=tuple(told))
    return parse_patches(found, source, settings, document)


def parse_patches(
    value: Any,  # noqa: ANN401 - anything
    source: Source,
    settings: LoadSettings,
    document: Document | None = None,
) -> Loaded:
    """Return the patches of a list of maps.

    Parameters
    ----------
    document
        What the list was read from, at ``patches``; for the lines of problems.
    """
    document = Document(None) if document is None else document
    most = MOST_TENANT_PATCHES if source.is_tenant else MOST_ADMIN_PATCHES
    if not isinstance(value, list | tuple) or len(value) > most:
        problem = LoadProblem(f"must be a list of at most {most} patches", ("patches",))
        return Loaded(problems=(_tell(problem, source, "", document),))
    patches: list[Patch] = []
    problems: list[PatchProblem] = []
    names: set[str] = set()
    for position, item in enumerate(value):
        title = _title(item, position)
        patch, found = _read_patch(item, position, source, settings)
        if patch.name in names:
            found = [*found, LoadProblem("is the name of another patch", ("name",))]
        names.add(patch.name)
        patches.append(patch)
        problems += (_tell(p, source, title, document, position) for p in found)
    return Loaded(() if problems else tuple(patches), tuple(problems))


def _read_patch(
    value: Any,  # noqa: ANN401 - anything
    position: int,
    source: Source,
    settings: LoadSettings,
) -> tuple[Patch, list[LoadProblem]]:
    def read_own_target(found: Any, path: Path) -> Target:  # noqa: ANN401 - anything
        return read_target(found, path, settings.node_classes)

    fields = Fields(value, ())
    fields.require("name", "target", "type", "patch")
    kind = fields.take("type", choose(PatchType), default=None)
    patch = Patch(
        name=fields.take("name", _read_name, default=""),
        source=source,
        position=position,
        target=fields.take("target", read_own_target, default=_NO_TARGET),
        type=kind or PatchType.MERGE,
        body=fields.take("patch", _read_body, default=None),
        phase=fields.take("phase", choose(Phase), default=Phase.DEFAULT),
        order=fields.take("order", read_order, default=_ORDER),
        is_required=fields.take("required", read_flag, default=False),
        allow_unsafe=fields.take("allowUnsafe", read_flag, default=False),
    )
    fields.finish()
    problems = fields.problems
    if not problems:
        problems += _find_misfits(patch, settings)
    if source.is_tenant and isinstance(value, Mapping):
        problems += _find_powers(patch, value)
    return patch, problems


def _read_name(value: Any, path: Path) -> str:  # noqa: ANN401 - anything
    if not isinstance(value, str) or _NAME.match(value) is None:
        text = "must be 1 to 63 of a-z, 0-9 and -, and begin and end with none of -"
        raise LoadProblem(text, path)
    return value


def _read_body(value: Any, path: Path) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        try:
            return load_document(value, most=MOST_PATCH).value
        except LoadProblem as problem:
            line = "" if problem.line is None else f"line {problem.line} of it: "
            raise LoadProblem(f"{line}{problem.text}", (*path, *problem.path)) from None
    try:
        check_value(value)
    except LoadProblem as problem:
        raise LoadProblem(problem.text, (*path, *problem.path)) from None
    if len(msgspec.json.encode(value)) > MOST_PATCH:
        raise LoadProblem(f"must not have more than {MOST_PATCH // 1024} KiB", path)
    return value


def _find_misfits(patch: Patch, settings: LoadSettings) -> list[LoadProblem]:
    """Return where type, target and body of a patch do not fit each other."""
    problem = _find_body_problem(patch)
    if problem is None and patch.type is PatchType.STRATEGIC:
        problem = _find_strategic_problem(patch, settings)
    if problem is None:
        found = find_variable_problem(patch.body, patch.type)
        problem = found and LoadProblem(found[1], ("patch", *found[0]))
    return [] if problem is None else [problem]


def _find_body_problem(patch: Patch) -> LoadProblem | None:
    if patch.type is not PatchType.JSON:
        if isinstance(patch.body, dict):
            return None
        return LoadProblem(f"must be a map, as its type is {patch.type}", ("patch",))
    if not isinstance(patch.body, list):
        return LoadProblem("must be a list of operations", ("patch",))
    for index, operation in enumerate(patch.body):
        wrong = find_operation_problem(operation)
        if wrong is not None:
            return LoadProblem(wrong, ("patch", index))
    return None


def _find_strategic_problem(patch: Patch, settings: LoadSettings) -> LoadProblem | None:
    if DIRECTIVE in patch.body:
        text = "must not stand at the top: an object is not replaced as a whole"
        return LoadProblem(text, ("patch", DIRECTIVE))
    for component in list_components(patch.target):
        group, kind = KINDS[component]
        if group == "traefik.io" and kind not in settings.list_identities:
            text = (
                f"strategic needs to know how the lists of {kind} are merged; use "
                "merge, or declare the kind's list keys"
            )
            return LoadProblem(text, ("type",))
    return None


def _find_powers(patch: Patch, value: Mapping[str, Any]) -> list[LoadProblem]:
    """Return what a user's patch has that is an admin's."""
    text = "is for admins: users' patches have none"
    problems = [LoadProblem(text, (name,)) for name in _ADMINS if name in value]
    if patch.type is PatchType.JSON:
        text = "json is for admins: use strategic or merge"
        problems.append(LoadProblem(text, ("type",)))
    if patch.target.components is None:
        text = "must be named in a user's patch, and not by *"
        problems.append(LoadProblem(text, ("target", "component")))
    elif shut := sorted(patch.target.components & _SHUT):
        text = f"{', '.join(shut)} cannot be changed by users"
        problems.append(LoadProblem(text, ("target", "component")))
    return problems


def _title(value: object, position: int) -> str:
    name = value.get("name") if isinstance(value, Mapping) else None
    return name[:63] if isinstance(name, str) and name else f"#{position + 1}"


def _tell(
    problem: LoadProblem,
    source: Source,
    title: str,
    document: Document,
    position: int | None = None,
) -> PatchProblem:
    at = () if position is None else ("patches", position)
    line = problem.line or document.find_line((*at, *problem.path))
    return PatchProblem(
        source.name, title, format_path(problem.path), line, problem.text
    )
