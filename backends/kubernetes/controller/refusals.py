"""What an API server's refusal of a create means for a cluster."""

from datetime import datetime, timedelta
from typing import Final

from backends.kubernetes.api.errors import (
    Denied,
    Invalid,
    KubeError,
    NoNamespace,
    QuotaExceeded,
)
from backends.kubernetes.planning.inputs import Refusal, RefusalKind
from gateway.aio.backoff import Backoff

# A quota is freed by someone's decision, not by our asking.
_BASE_S: Final = 1.0
_CAP_S: Final = 60.0
_BACKOFF: Final = Backoff(_BASE_S, _CAP_S, uniform=lambda low, high: (low + high) / 2)
_CLASSES: Final = (
    (QuotaExceeded, RefusalKind.QUOTA),
    (NoNamespace, RefusalKind.NO_NAMESPACE),
    (Invalid, RefusalKind.INVALID),
)


def read_refusal(error: KubeError, now: datetime, failures: int) -> Refusal:
    """Return how a cluster that waits for this create has to see the error.

    Parameters
    ----------
    failures
        Refused creates of this cluster in a row, this one included.
    """
    return Refusal(_find_kind(error), _describe(error), _later(now, failures))


def wait_for_name(text: str, kind: RefusalKind, now: datetime) -> Refusal:
    """Return a refusal for a name that is another object's."""
    delay_s = _BASE_S if kind is RefusalKind.NAME_BUSY else 5.0
    return Refusal(kind, text, now + timedelta(seconds=delay_s))


def _later(now: datetime, failures: int) -> datetime:
    return now + timedelta(seconds=_BACKOFF.delay_s(failures))


def _find_kind(error: KubeError) -> RefusalKind:
    for kind, refusal in _CLASSES:
        if isinstance(error, kind):
            return refusal
    if isinstance(error, Denied):
        return RefusalKind.POLICY if error.is_policy else RefusalKind.FORBIDDEN
    return RefusalKind.UNAVAILABLE


def _describe(error: KubeError) -> str:
    if isinstance(error, Invalid) and error.causes:
        return "; ".join(
            f"{cause.field}: {cause.message}" if cause.field else cause.message
            for cause in error.causes
        )
    return error.text
