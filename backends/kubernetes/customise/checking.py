"""What an admin's patches would do, tried on sample members before any cluster is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.targets import is_target
from backends.kubernetes.customise.values import Context, Member, Patch, Refused, Target

Sample = tuple[Member, Context]


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it.

    Parameters
    ----------
    refused
        Members that could not be made; each is an error.
    missing
        Required patches that match nothing; each is an error.
    unmatched
        Other patches that match nothing; each is worth a warning.
    """

    refused: tuple[Refused, ...] = ()
    missing: tuple[Patch, ...] = ()
    unmatched: tuple[Patch, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether there is no error."""
        return not self.refused and not self.missing


def check_patches(patches: Sequence[Patch], samples: Sequence[Sample]) -> Checked:
    """Return what an admin's patches would do to ``samples``.

    A sample has no user and no namespace of a site: a patch for certain ones alone
    is tried as if it were for each, by itself.
    """
    refused = [customise(member, patches, context) for member, context in samples]
    unmatched = []
    for patch in patches:
        if any(is_target(patch.target, *sample) for sample in samples):
            continue
        wide = replace(patch, target=_widen(patch.target))
        tried = [s for s in samples if is_target(wide.target, *s)]
        refused += (customise(member, [wide], context) for member, context in tried)
        if not tried:
            unmatched.append(patch)
    return Checked(
        tuple(dict.fromkeys(r for r in refused if isinstance(r, Refused))),
        tuple(patch for patch in unmatched if patch.is_required),
        tuple(patch for patch in unmatched if not patch.is_required),
    )


def _widen(target: Target) -> Target:
    return replace(
        target,
        namespace_names=None,
        namespace_labels=None,
        user_names=None,
        user_groups=None,
    )
