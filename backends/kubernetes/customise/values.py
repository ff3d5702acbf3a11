"""Patches, what they are judged by, and what comes of them, as plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from backends.kubernetes.customise.differences import ChangeKind
from backends.kubernetes.customise.fields import ListKeys
from backends.kubernetes.customise.paths import Path, Rule, format_path

Manifest = dict[str, Any]


class TargetComponent(StrEnum):
    """What a member of a cluster is to it."""

    SCHEDULER = "scheduler"
    WORKER = "worker"
    CREDENTIALS = "credentials"
    PLUGIN = "plugin"
    SERVICE = "service"
    INGRESS = "ingress"
    INGRESS_TCP = "ingress-tcp"
    MIDDLEWARE = "middleware"
    NETWORK_POLICY = "network-policy"


class Phase(StrEnum):
    """When a patch is applied. Tenants have a phase of their own, between these."""

    DEFAULT = "default"
    ENFORCE = "enforce"


class PatchType(StrEnum):
    """How a patch is read."""

    STRATEGIC = "strategic"
    MERGE = "merge"
    JSON = "json"


class Reason(StrEnum):
    """Why a member is refused; spelt as in a condition."""

    PATCH_INVALID = "PatchInvalid"
    PATCH_FAILED = "PatchFailed"
    POLICY_VIOLATION = "PolicyViolation"
    PROTECTED_FIELD = "ProtectedField"
    UNION_CONFLICT = "UnionConflict"
    SCHEMA_INVALID = "SchemaInvalid"
    HOOK_FAILED = "HookFailed"
    TOO_LARGE = "TooLarge"


@dataclass(frozen=True, slots=True)
class Source:
    """Where patches come from.

    Parameters
    ----------
    name
        For messages, such as the path of a file.
    rank
        Patches of a higher one come later, where their order is the same.
    is_tenant
        Whether users write it: then it is judged, whoever did.
    """

    name: str
    rank: int = 0
    is_tenant: bool = False


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector's term.

    Parameters
    ----------
    label
        Name of the label.
    operator
        In, NotIn, Exists, DoesNotExist, Gt or Lt.
    values
        Sound for the operator.
    """

    label: str
    operator: str
    values: tuple[str, ...] = ()


Term = tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Which objects a patch is for; what is ``None`` does not narrow it.

    Parameters
    ----------
    components
        ``None`` stands for each.
    kind, group
        As in Kubernetes; a kind of ``None`` stands for each.
    name
        A glob for the whole name, or for the name that one is generated from.
    namespace_names
        Globs, any of them.
    namespace_labels
        All of them.
    user_names, user_groups
        Globs; one of either is enough.
    node_classes
        Names, any of them.
    terms
        Any of them; an empty one matches nothing.
    """

    components: frozenset[TargetComponent] | None = None
    kind: str | None = None
    group: str | None = None
    name: str | None = None
    namespace_names: tuple[str, ...] | None = None
    namespace_labels: Mapping[str, str] | None = None
    user_names: tuple[str, ...] | None = None
    user_groups: tuple[str, ...] | None = None
    node_classes: frozenset[str] | None = None
    terms: tuple[Term, ...] | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch, read and sound in itself.

    Parameters
    ----------
    name
        Unique among those of one source; a DNS label.
    source
        Where it was read.
    position
        In its list, from 0.
    body
        Parsed: a map, or the list of operations of a JSON patch.
    order
        Lower ones come first.
    is_required
        Whether it is an error that it matches nothing.
    allow_unsafe
        Whether it may change what connects a member to its cluster.
    """

    name: str
    source: Source
    position: int
    target: Target
    type: PatchType
    body: Any = field(repr=False)
    phase: Phase = Phase.DEFAULT
    order: int = 100
    is_required: bool = False
    allow_unsafe: bool = False

    @property
    def phase_name(self) -> str:
        """When it is applied, tenants included."""
        return "user" if self.source.is_tenant else str(self.phase)


@dataclass(frozen=True, slots=True)
class NodeClass:
    """A class of nodes, by what its nodes are declared to have."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """What users' patches may change.

    Parameters
    ----------
    is_enabled
        Without it users have no patches at all.
    rules
        Fields that they may set; nothing can open those that are protected.
    ceilings
        Largest amount of each resource, by its name, where rules open resources.
        One that is missing may not be touched.
    """

    is_enabled: bool = False
    rules: tuple[Rule, ...] = ()
    ceilings: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """For whom, where and under which rules a member is made.

    Parameters
    ----------
    cluster
        Name of the ``DaskCluster``.
    namespace, namespace_labels
        Where the member will be.
    user, groups
        The cluster's owner.
    node_class
        That the member was asked to run on.
    list_identities
        What the admin declares of kinds without patch metadata.
    hook
        The admin's function, called between default and users' patches with a
        copy of the manifest.
    """

    cluster: str
    namespace: str
    user: str
    groups: tuple[str, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    node_class: NodeClass | None = None
    policy: Policy = field(default_factory=Policy)
    list_identities: ListKeys = field(default_factory=dict)
    hook: "Callable[[Manifest, Context], object] | None" = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What binds a pod to its cluster, by the names of its parts.

    Parameters
    ----------
    container
        The one that Dask runs in.
    volumes
        Names of ours.
    mounts
        Paths of ours in the container.
    """

    container: str
    volumes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A generated object of a cluster, before it is customised.

    Parameters
    ----------
    component
        What it is to the cluster.
    manifest
        Plain JSON; never changed.
    contract
        Of pods.
    """

    component: TargetComponent
    manifest: Mapping[str, Any] = field(repr=False)
    contract: Contract | None = None

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        metadata = self.manifest["metadata"]
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        return f"{self.manifest['kind']} {name}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Which patch changed a field, in which way.

    Parameters
    ----------
    patch, source
        Their names; the hook's are ``member_hook`` and ``config``.
    phase
        ``default``, ``hook``, ``user`` or ``enforce``.
    """

    path: Path
    kind: ChangeKind
    patch: str
    source: str
    phase: str


@dataclass(frozen=True, slots=True)
class Customised:
    """A member with all its patches.

    Parameters
    ----------
    manifest
        Its own: shares nothing with the base or a patch.
    matched
        Names of the patches that were applied, in their order.
    hash
        Of these patches, their order included; "" if there were none.
    origins
        What was changed, in the order in which it was.
    unsafe
        Names of patches that changed what connects the member to its cluster.
    """

    manifest: Manifest = field(repr=False)
    matched: tuple[str, ...] = ()
    hash: str = ""
    origins: tuple[Origin, ...] = ()
    unsafe: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a member must not be written. No value of a field is in it.

    Parameters
    ----------
    title
        Kind and name of the member.
    patch, source
        Their names; "" if no one patch is to blame.
    path
        Of the field; empty for the object or the patch as a whole.
    text
        What is wrong, and what would be right.
    """

    reason: Reason
    title: str
    text: str
    patch: str = ""
    source: str = ""
    path: Path = ()

    def format(self) -> str:
        """Return it as one line.

        Examples
        --------
        >>> why = "is set by the gateway"
        >>> Refused(Reason.PROTECTED_FIELD, "Pod w", why, "p", "f", ("kind",)).format()
        'patch p of f on Pod w: kind: is set by the gateway'
        """
        who = f"patch {self.patch} of {self.source} on " if self.patch else ""
        where = f"{format_path(self.path)}: " if self.path else ""
        return f"{who}{self.title}: {where}{self.text}"


class PatchFailure(Exception):
    """A patch that cannot be applied to an object.

    Parameters
    ----------
    path
        Where, in the object or the patch.
    text
        Why, without values.
    reason
        ``PatchFailed`` unless it is known better.
    """

    def __init__(
        self, path: Sequence[Any], text: str, reason: Reason = Reason.PATCH_FAILED
    ) -> None:
        super().__init__(f"{format_path(tuple(path))}: {text}")
        self.path = tuple(path)
        self.text = text
        self.reason = reason
