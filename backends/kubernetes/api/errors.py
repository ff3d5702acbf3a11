"""What the API server refuses, as classes that callers tell apart.

Translated once, from status and body. Expected answers are values instead: a
delete that finds nothing. Texts are the server's, without what only a Go program
reads; they may be shown to the cluster's owner.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct, field

from gateway.domain.errors import BackendError, Unavailable

# What the server prints for an absent value, and no user can do anything with.
_NOISE: Final = re.compile(r"<nil>: |Invalid value: null: ")
_TOO_LARGE: Final = "request is too large"
_TERMINATING: Final = "NamespaceTerminating"
_QUOTA: Final = re.compile(r"exceeded quota: |failed quota: ")
_NO_RIGHT: Final = re.compile(r'User ".*" cannot ')
_MAX_TEXT: Final = 1000
_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 60.0


class Cause(Struct, frozen=True):
    """One reason of the server's, with the path of the field that it is about."""

    reason: str = ""
    message: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked, for texts: ``create pods team-a/c1-worker-0``."""

    verb: str
    resource: str
    namespace: str | None = None
    name: str = ""

    def format(self) -> str:
        """Return it as words."""
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {self.resource} {place}".rstrip()


class KubeError(BackendError):
    """The API server did not do what was asked.

    Parameters
    ----------
    call
        What was asked.
    text
        The server's words.
    status
        HTTP; 0 if there was no answer.
    causes
        Fields that are wrong, where the server names them.
    """

    code = "kube_error"

    def __init__(
        self, call: Call, text: str, *, status: int = 0, causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(f"{call.format()}: {text}")
        self.call = call
        self.text = text
        self.status = status
        self.causes = causes


class NotFound(KubeError):
    """404 of the object itself: the server says its name, so it does not exist."""


class NoSuchKind(KubeError):
    """404 in plain text: there is no such kind, so nothing is known of the object."""


class NoNamespace(KubeError):
    """The namespace does not exist, or is being deleted."""


class AlreadyExists(KubeError):
    """409: another object has the name, perhaps one that is being deleted."""


class StaleWrite(KubeError):
    """409: made from an old view, or of another object; look again first."""


class Expired(KubeError):
    """410: the version or token is too old; list again."""


class Denied(KubeError):
    """403: our account has no such right, or a policy forbids it."""

    @property
    def is_policy(self) -> bool:
        """True if an admission rule refused what the account may do as such."""
        return _NO_RIGHT.search(self.text) is None


class QuotaExceeded(KubeError):
    """403: the namespace's quota is used up, or wants amounts that are not given."""


class Invalid(KubeError):
    """422, 400, or larger than etcd takes: the same again is refused again."""


class Transient(KubeError, Unavailable):
    """429, 5xx, or no answer in time; the request may have been carried out.

    Parameters
    ----------
    retry_after_s
        When the server wants to be asked again, in seconds.
    """

    code = "unavailable"
    http_status = 503
    retryable = True

    def __init__(
        self,
        call: Call,
        text: str,
        *,
        status: int = 0,
        retry_after_s: float = _RETRY_S,
    ) -> None:
        KubeError.__init__(self, call, text, status=status)
        self.retry_after_s = retry_after_s

    @property
    def is_throttled(self) -> bool:
        """True if the server is alive and asks for fewer calls."""
        return self.status == HTTPStatus.TOO_MANY_REQUESTS


class _Details(Struct, rename="camel"):
    name: str = ""
    kind: str = ""
    causes: list[Cause] = field(default_factory=list)
    retry_after_seconds: float = 0


class _Status(Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_DECODER: Final = msgspec.json.Decoder(_Status)


def translate(
    call: Call, status: int, body: bytes, headers: Mapping[str, str]
) -> KubeError:
    """Return the error that an answer with an error status is.

    Parameters
    ----------
    body
        A ``Status`` object, or plain text.
    headers
        Of the answer; looked up in lower case where the mapping folds it.

    Examples
    --------
    >>> call = Call("get", "pods", "team", "p")
    >>> translate(call, 404, b"404 page not found", {})
    NoSuchKind('get pods team/p: 404 page not found')
    """
    said = _read_status(body)
    details = said.details or _Details()
    text = clean_text(said.message) or f"HTTP status {status}"
    causes = tuple(details.causes)
    match status:
        case HTTPStatus.NOT_FOUND:
            return _translate_absence(call, said, text)
        case HTTPStatus.CONFLICT:
            kind = AlreadyExists if said.reason == "AlreadyExists" else StaleWrite
            return kind(call, text, status=status, causes=causes)
        case HTTPStatus.GONE:
            return Expired(call, text, status=status)
        case HTTPStatus.FORBIDDEN:
            return _translate_refusal(call, text, causes)
        case _:
            pass
    if _TOO_LARGE in said.message or _is_client_error(status):
        return Invalid(call, text, status=status, causes=causes)
    asked = headers.get("Retry-After", "")
    after_s = float(asked) if asked.isdecimal() else details.retry_after_seconds
    return Transient(
        call, text, status=status, retry_after_s=min(after_s or _RETRY_S, _MAX_RETRY_S)
    )


def translate_event(call: Call, body: bytes) -> KubeError:
    """Return the error that an ``ERROR`` event within a watch is."""
    code = _read_status(body).code or HTTPStatus.INTERNAL_SERVER_ERROR
    return translate(call, code, body, {})


def clean_text(text: str) -> str:
    """Return a text of the server's for people, shortened.

    Examples
    --------
    >>> clean_text("<nil>: Invalid value: null: must be set")
    'must be set'
    """
    return " ".join(_NOISE.sub("", text).split())[:_MAX_TEXT]


def _read_status(body: bytes) -> _Status:
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Status(message=body[:_MAX_TEXT].decode(errors="replace").strip())


def _translate_absence(call: Call, said: _Status, text: str) -> KubeError:
    details = said.details or _Details()
    if not details.name:
        return NoSuchKind(call, text, status=HTTPStatus.NOT_FOUND)
    if details.kind == "namespaces" and call.resource != "namespaces":
        return NoNamespace(call, text, status=HTTPStatus.NOT_FOUND)
    return NotFound(call, text, status=HTTPStatus.NOT_FOUND)


def _translate_refusal(call: Call, text: str, causes: tuple[Cause, ...]) -> KubeError:
    kind: type[KubeError] = Denied
    if any(cause.reason == _TERMINATING for cause in causes):
        kind = NoNamespace
    elif _QUOTA.search(text):
        kind = QuotaExceeded
    return kind(call, text, status=HTTPStatus.FORBIDDEN, causes=causes)


def _is_client_error(status: int) -> bool:
    retried = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    # 401 too: a token that has just been rotated is read again a minute later.
    is_retried = status in retried or status == HTTPStatus.UNAUTHORIZED
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and (
        not is_retried
    )
