"""What a refused create means for a cluster that waits for it."""

from datetime import UTC, datetime, timedelta

import pytest

from backends.kubernetes.api.errors import (
    Call,
    Cause,
    Denied,
    Invalid,
    KubeError,
    NoNamespace,
    NoSuchKind,
    QuotaExceeded,
    Transient,
)
from backends.kubernetes.controller.refusals import read_refusal
from backends.kubernetes.planning.inputs import RefusalKind

CALL = Call("create", "pods", "team", "p")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_RIGHT = 'pods is forbidden: User "a" cannot create resource "pods"'


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (QuotaExceeded(CALL, "exceeded quota: q"), RefusalKind.QUOTA),
        (
            Denied(CALL, 'pods "p" is forbidden: violates PodSecurity'),
            RefusalKind.POLICY,
        ),
        (Denied(CALL, NO_RIGHT), RefusalKind.FORBIDDEN),
        (Invalid(CALL, "spec.x is wrong"), RefusalKind.INVALID),
        (NoNamespace(CALL, "not found"), RefusalKind.NO_NAMESPACE),
        (NoSuchKind(CALL, "404 page not found"), RefusalKind.UNAVAILABLE),
        (Transient(CALL, "no answer"), RefusalKind.UNAVAILABLE),
    ],
    ids=lambda value: value.name if isinstance(value, RefusalKind) else "",
)
def test_each_error_is_a_kind(error: KubeError, want: RefusalKind) -> None:
    assert read_refusal(error, NOW, 1).kind is want


def test_fields_that_are_wrong_are_named() -> None:
    causes = (Cause("Bad", "must be >= 0", "spec.a"), Cause("Bad", "is odd"))

    refusal = read_refusal(Invalid(CALL, "invalid", causes=causes), NOW, 1)

    assert refusal.text == "spec.a: must be >= 0; is odd"


def test_what_is_refused_again_and_again_is_tried_ever_later_up_to_a_minute() -> None:
    error = QuotaExceeded(CALL, "exceeded quota: q")

    delays = [read_refusal(error, NOW, n).retry_at - NOW for n in (1, 2, 3, 20)]

    assert delays == sorted(delays)
    assert delays[0] > timedelta(0)
    assert delays[-1] <= timedelta(minutes=1)
