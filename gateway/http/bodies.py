"""Read and parse the bodies of requests."""

import re
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from gateway.domain.errors import InvalidRequest
from gateway.http.services import MAX_BODY

T = TypeVar("T")

# Options are a form's values; deeper ones are a mistake or an attack.
_MAX_DEPTH = 32
_MAX_INTEGER = 2**63
_PATH = re.compile(r"(?P<text>.*) - at `(?P<path>.*)`\Z", re.DOTALL)


async def parse_body(
    request: web.Request, kind: type[T], *, limit: int = MAX_BODY
) -> T:
    """Return the JSON body of ``request`` as a ``kind``.

    Parameters
    ----------
    limit
        Bytes.

    Raises
    ------
    InvalidRequest
        If it cannot be read, is no JSON or does not fit; with the field's path.
    aiohttp.web.HTTPRequestEntityTooLarge
        If it is longer than ``limit``.
    aiohttp.web.HTTPUnsupportedMediaType
        If it is compressed; the error's headers say what is taken.
    """
    body = await _read_body(request, limit)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _build_refusal(str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidRequest("", f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise InvalidRequest("", "the body is nested too deeply") from error


def check_storable(value: Any, field: str) -> None:  # noqa: ANN401 - any JSON value
    """Refuse what no store keeps and no other program reads again.

    Parameters
    ----------
    value
        Parsed JSON.
    field
        Path of it, for the error.

    Raises
    ------
    InvalidRequest
        For a NUL, an integer of more than 64 bits, or deep nesting.
    """
    level = [value]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str) and "\0" in item:
                raise InvalidRequest(field, "holds a NUL character")
            if isinstance(item, int) and not -_MAX_INTEGER <= item < _MAX_INTEGER:
                raise InvalidRequest(field, "holds an integer of more than 64 bits")
            if isinstance(item, dict):
                below += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise InvalidRequest(field, f"is nested more than {_MAX_DEPTH} deep")


async def _read_body(request: web.Request, limit: int) -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        # No client of ours packs a body, and unpacking is work for a stranger.
        headers = {"Accept-Encoding": "identity"}
        raise web.HTTPUnsupportedMediaType(headers=headers)
    if (request.content_length or 0) > limit:
        raise web.HTTPRequestEntityTooLarge(limit, request.content_length or 0)
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > limit:
                raise web.HTTPRequestEntityTooLarge(limit, len(body))
    except (web.RequestPayloadError, ConnectionError) as error:
        # Damaged, or the sender has gone in the middle of it.
        raise InvalidRequest("", "the body cannot be read") from error
    return bytes(body)


def _build_refusal(text: str) -> InvalidRequest:
    found = _PATH.match(text)
    if found is None:
        return InvalidRequest("", text)
    return InvalidRequest(found["path"].removeprefix("$").lstrip("."), found["text"])
