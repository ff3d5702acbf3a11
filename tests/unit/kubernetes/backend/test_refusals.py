"""What the API server refuses reaches the user with field and remedy, as a 4xx."""

import pytest

from backends.kubernetes.api.errors import (
    AlreadyExists,
    Call,
    Cause,
    Denied,
    Invalid,
    KubeError,
    NoNamespace,
    NoSuchKind,
    QuotaExceeded,
    StaleWrite,
    Transient,
)
from backends.kubernetes.backend.refusals import translate_refusal
from gateway.domain.errors import BackendError, InvalidRequest, Rejected, Unavailable

CALL = Call("create", "daskclusters", "gateway", "c1")


def test_a_wrong_field_is_named_and_the_others_after_it() -> None:
    causes = (
        Cause(message="<nil>: must be >= 0", field="spec.workers.replicas"),
        Cause(message="Required value", field="spec.owner"),
        Cause(message="and so on"),
        Cause(field="spec.silent"),
    )

    error = translate_refusal(Invalid(CALL, "long", status=422, causes=causes))

    assert isinstance(error, InvalidRequest)
    assert error.field == "spec.workers.replicas"
    assert error.text == "must be >= 0; spec.owner: Required value; and so on"


def test_without_causes_the_text_is_told() -> None:
    text = 'strict decoding error: unknown field "spec.worker.template.spec.x"'

    error = translate_refusal(Invalid(CALL, text, status=400))

    assert isinstance(error, InvalidRequest)
    assert str(error) == text


def test_what_is_too_large_says_so() -> None:
    error = translate_refusal(Invalid(CALL, "etcdserver: request is too large"))

    assert isinstance(error, InvalidRequest)
    assert "too large for Kubernetes" in str(error)


@pytest.mark.parametrize(
    ("refusal", "kind", "status"),
    [
        (QuotaExceeded(CALL, "exceeded quota: few"), Rejected, 409),
        (Denied(CALL, "policy 'x' denied: no GPUs"), Rejected, 409),
        (Denied(CALL, 'User "u" cannot create resource'), BackendError, 500),
        (NoSuchKind(CALL, "404 page not found"), Unavailable, 503),
        (NoNamespace(CALL, "is being terminated"), Unavailable, 503),
        (AlreadyExists(CALL, "exists"), Unavailable, 503),
        (StaleWrite(CALL, "modified"), Unavailable, 503),
        (Transient(CALL, "no answer"), Unavailable, 503),
        (KubeError(CALL, "odd"), BackendError, 500),
    ],
)
def test_each_refusal_has_its_class(refusal, kind, status) -> None:
    error = translate_refusal(refusal)

    assert type(error) in (kind, Transient)
    assert error.http_status == status
    assert refusal.text in str(error) or isinstance(refusal, NoSuchKind)
