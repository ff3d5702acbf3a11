"""Responses: values as JSON, errors as JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from gateway.domain.errors import (
    BackendError,
    Rejected,
    Unauthenticated,
    Unavailable,
    UserError,
)
from gateway.http.schemas import ErrorReply

_JSON = "application/json"
_CODES = {
    401: Unauthenticated.code,
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_encoding",
}
_TEXTS = {
    404: "there is nothing at this path",
    405: "this path does not take this method",
    413: "the body is too large",
    415: "the body must not be compressed",
}
_ENCODER = msgspec.json.Encoder()


class StoreAway(BackendError):
    """The store did not answer for as long as a client waited.

    Not 503, because the stock client takes that for the end of its cluster
    without reading why.
    """

    code = "unavailable"
    http_status = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error is told.

    Parameters
    ----------
    status, code, text
        HTTP status, `ErrorReply.code` and `ErrorReply.error`.
    headers
        To go with it.
    is_bug
        Whether a person must look at it, with its stack.
    """

    status: int
    code: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    is_bug: bool = False


def describe_error(error: BaseException) -> Failure:
    """Return how ``error`` is told; texts for operators are kept from users."""
    match error:
        case UserError() | StoreAway() | Rejected():
            challenge = getattr(error, "challenge", None)
            headers = {} if challenge is None else {"WWW-Authenticate": challenge}
            return Failure(error.http_status, error.code, str(error), headers)
        case Unavailable():
            headers = {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
            text = "the gateway's store does not answer now; try again"
            return Failure(503, error.code, text, headers)
        case BackendError():
            text = "the gateway could not do this; its log has the reason"
            return Failure(error.http_status, error.code, text, is_bug=True)
        case web.HTTPException():
            return _describe_http(error)
        case _:
            text = "the gateway failed on this request; its log has the reason"
            return Failure(500, "internal_error", text, is_bug=True)


def build_failure(failure: Failure, request_id: str) -> web.Response:
    """Return the response that tells ``failure``."""
    reply = ErrorReply(failure.text, failure.code, request_id)
    return json_response(reply, status=failure.status, headers=failure.headers)


def find_headers(error: web.HTTPException) -> dict[str, str]:
    """Return the headers of ``error`` that do not describe its body."""
    return {
        name: value
        for name, value in error.headers.items()
        if name.lower() not in {"content-type", "content-length"}
    }


def json_response(
    value: Any,  # noqa: ANN401 - anything that msgspec writes
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return a response with ``value`` as its JSON body."""
    return raw_json_response(encode(value), status=status, headers=headers)


def raw_json_response(
    body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a response with ``body``, JSON already."""
    return web.Response(body=body, status=status, headers=headers, content_type=_JSON)


def encode(value: Any) -> bytes:  # noqa: ANN401 - anything that msgspec writes
    """Return ``value`` as JSON, whatever the texts in it."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate, from a path or a name that was no UTF-8.
        return _ENCODER.encode(_replace_surrogates(msgspec.to_builtins(value)))


def _describe_http(error: web.HTTPException) -> Failure:
    code = _CODES.get(error.status, "http_error")
    text = _TEXTS.get(error.status, error.reason)
    return Failure(error.status, code, text, find_headers(error))


def _replace_surrogates(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {
            _replace_surrogates(k): _replace_surrogates(v) for k, v in value.items()
        }
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    return value
