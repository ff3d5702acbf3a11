"""Refusals of an API server, in its own words, as classes."""

import json

import pytest

from backends.kubernetes.api.errors import (
    AlreadyExists,
    Call,
    Denied,
    Expired,
    Invalid,
    KubeError,
    NoNamespace,
    NoSuchKind,
    NotFound,
    QuotaExceeded,
    StaleWrite,
    Transient,
    translate,
    translate_event,
)
from gateway.domain.errors import Unavailable

CALL = Call("create", "pods", "team", "p1")


def status(code: int, reason: str, message: str, **details: object) -> bytes:
    said = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return json.dumps(said | {"details": details}).encode()


@pytest.mark.parametrize(
    ("code", "body", "want"),
    [
        pytest.param(
            404,
            status(404, "NotFound", 'pods "p1" not found', name="p1", kind="pods"),
            NotFound,
            id="absent-object",
        ),
        pytest.param(404, b"404 page not found\n", NoSuchKind, id="absent-kind"),
        pytest.param(
            404,
            status(404, "NotFound", "the server could not find the resource"),
            NoSuchKind,
            id="absent-path",
        ),
        pytest.param(
            404,
            status(
                404,
                "NotFound",
                'namespaces "team" not found',
                name="team",
                kind="namespaces",
            ),
            NoNamespace,
            id="absent-namespace",
        ),
        pytest.param(
            403,
            status(
                403,
                "Forbidden",
                "unable to create new content in namespace team",
                causes=[{"reason": "NamespaceTerminating"}],
            ),
            NoNamespace,
            id="ending-namespace",
        ),
        pytest.param(
            403,
            status(
                403, "Forbidden", 'pods "p1" is forbidden: exceeded quota: q, used: 2'
            ),
            QuotaExceeded,
            id="quota",
        ),
        pytest.param(
            403,
            status(403, "Forbidden", "failed quota: cpu: must specify limits.memory"),
            QuotaExceeded,
            id="quota-wants-limits",
        ),
        pytest.param(
            403,
            status(403, "Forbidden", 'pods "p1" is forbidden: violates PodSecurity'),
            Denied,
            id="policy",
        ),
        pytest.param(
            409,
            status(409, "AlreadyExists", 'pods "p1" already exists'),
            AlreadyExists,
            id="name-taken",
        ),
        pytest.param(
            409, status(409, "Conflict", "was modified"), StaleWrite, id="stale"
        ),
        pytest.param(410, status(410, "Expired", "too old"), Expired, id="too-old"),
        pytest.param(422, status(422, "Invalid", "is invalid"), Invalid, id="invalid"),
        pytest.param(400, status(400, "BadRequest", "bad"), Invalid, id="bad-request"),
        pytest.param(
            500,
            status(500, "", "etcdserver: request is too large"),
            Invalid,
            id="too-large-is-permanent",
        ),
        pytest.param(500, status(500, "", "leader changed"), Transient, id="server"),
        pytest.param(401, status(401, "Unauthorized", "who"), Transient, id="token"),
        pytest.param(503, b"starting", Transient, id="starts"),
    ],
)
def test_each_refusal_is_a_class_of_its_own(
    code: int, body: bytes, want: type[KubeError]
) -> None:
    error = translate(CALL, code, body, {})

    assert type(error) is want
    assert error.status == code
    assert "create pods team/p1" in str(error)


def test_a_server_with_too_much_to_do_says_when_to_ask_again() -> None:
    error = translate(CALL, 429, b"Too many requests", {"Retry-After": "7"})

    assert isinstance(error, Transient)
    assert isinstance(error, Unavailable)
    assert error.is_throttled
    assert error.retry_after_s == 7


def test_causes_keep_field_and_message_and_lose_what_only_programs_read() -> None:
    cause = {
        "reason": "FieldValueInvalid",
        "message": "must be >= 0",
        "field": "spec.a",
    }
    noise = "spec: <nil>: Invalid value: null: a rule says no"

    error = translate(CALL, 422, status(422, "Invalid", noise, causes=[cause]), {})

    assert error.text == "spec: a rule says no"
    assert [(c.field, c.message) for c in error.causes] == [("spec.a", "must be >= 0")]


def test_a_policy_is_told_from_a_missing_right() -> None:
    right = 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource'
    policy = 'pods "p1" is forbidden: violates PodSecurity "restricted:latest"'

    verdicts = [
        translate(CALL, 403, status(403, "Forbidden", text), {})
        for text in (right, policy)
    ]

    assert [v.is_policy for v in verdicts if isinstance(v, Denied)] == [False, True]


def test_an_error_within_a_watch_counts_by_its_own_code() -> None:
    assert isinstance(translate_event(CALL, status(410, "Gone", "old")), Expired)
    assert isinstance(translate_event(CALL, b"{}"), Transient)
