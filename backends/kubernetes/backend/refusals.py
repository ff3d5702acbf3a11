"""What the API server refuses, as what the gateway's users are told. Pure."""

from typing import Final

from backends.kubernetes.api.errors import (
    AlreadyExists,
    Cause,
    Denied,
    Invalid,
    KubeError,
    NoNamespace,
    NoSuchKind,
    QuotaExceeded,
    StaleWrite,
    Transient,
    clean_text,
)
from gateway.domain.errors import (
    BackendError,
    GatewayError,
    InvalidRequest,
    Rejected,
    Unavailable,
)

_TOO_LARGE: Final = "request is too large"
# What changes only with the platform's configuration.
_LATER_S: Final = 10.0


def translate_refusal(error: KubeError) -> GatewayError:
    """Return the error for the user, or for the operator where it is ours.

    Returns
    -------
    GatewayError
        `InvalidRequest` with the field where the object is refused as such,
        `Rejected` for a quota or an admission rule, `Unavailable` where it may be
        otherwise soon, else `BackendError`.
    """
    match error:
        case Transient():
            found: GatewayError = error
        case Invalid():
            found = _translate_invalid(error)
        case QuotaExceeded():
            found = Rejected(f"the platform's quota is used up: {error.text}")
        case Denied() if error.is_policy:
            found = Rejected(f"refused by a rule of the platform: {error.text}")
        case NoSuchKind():
            text = "Kubernetes has no DaskCluster; its definition must be installed"
            found = Unavailable(text, retry_after_s=_LATER_S)
        case NoNamespace():
            text = f"the gateway's namespace does not take it: {error.text}"
            found = Unavailable(text, retry_after_s=_LATER_S)
        case AlreadyExists() | StaleWrite():
            text = f"changed by others at the same time: {error.text}"
            found = Unavailable(text)
        case _:
            found = BackendError(str(error))
    return found


def _translate_invalid(error: Invalid) -> InvalidRequest:
    if _TOO_LARGE in error.text:
        text = "the cluster's description is too large for Kubernetes; make it smaller"
        return InvalidRequest("spec", text)
    causes = [cause for cause in error.causes if cause.message]
    if not causes:
        return InvalidRequest("", error.text)
    first, *others = causes
    words = [clean_text(first.message), *map(_describe, others)]
    return InvalidRequest(first.field, "; ".join(words))


def _describe(cause: Cause) -> str:
    text = clean_text(cause.message)
    return f"{cause.field}: {text}" if cause.field else text
