"""An admin's patches, tried on samples when they are loaded."""

from backends.kubernetes.customise.checking import check_patches
from backends.kubernetes.customise.values import NodeClass, Reason
from tests.support.customising import a_context, a_member, merge, operations, patches_of

SAMPLES = [
    (a_member("scheduler"), a_context()),
    (a_member("worker"), a_context()),
    (a_member("worker"), a_context(node_class=NodeClass("gpu"))),
]
LABEL = {"metadata": {"labels": {"a": "b"}}}


def check(*found):
    return check_patches(
        patches_of(found, node_classes=frozenset({"gpu", "arm"})), SAMPLES
    )


def test_patches_that_fit_are_good() -> None:
    checked = check(
        merge(LABEL), merge(LABEL, target={"kind": "Pod", "nodeClass": ["gpu"]})
    )

    assert checked.is_good
    assert checked.unmatched == ()


def test_row_c21_a_path_that_is_not_there_is_found_at_load() -> None:
    checked = check(operations({"op": "remove", "path": "/spec/none"}, name="bad"))

    assert not checked.is_good
    assert [(r.reason, r.patch) for r in checked.refused] == [
        (Reason.PATCH_FAILED, "bad")
    ]


def test_row_p8_a_patch_that_matches_nothing_is_told_and_a_required_one_fails() -> None:
    arm = {"kind": "Pod", "nodeClass": ["arm"]}

    warned = check(merge(LABEL, target=arm, name="arm"))
    failed = check(merge(LABEL, target=arm, name="arm", required=True))

    assert warned.is_good
    assert [patch.name for patch in warned.unmatched] == ["arm"]
    assert not failed.is_good
    assert [patch.name for patch in failed.missing] == ["arm"]


def test_a_patch_for_certain_users_is_tried_and_counts_as_matched() -> None:
    target = {"component": ["worker"], "users": {"groups": ["gpu-users"]}}

    good = check(merge(LABEL, target=target, required=True))
    bad = check(merge({"kind": "x"}, target=target))

    assert good.is_good
    assert [refused.reason for refused in bad.refused] == [Reason.PROTECTED_FIELD]
