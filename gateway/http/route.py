"""What describes one route. Which there are stands in `gateway.http.routes`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access(StrEnum):
    """Whose requests a route takes."""

    OPEN = "open"
    USER = "user"
    CLUSTER = "cluster"
    CLUSTER_OR_USER = "cluster or user"
    VISITOR = "visitor"


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter; ``schema`` is JSON Schema."""

    name: str
    text: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    Parameters
    ----------
    method
        ``GET`` stands for ``HEAD`` too.
    path
        Template, as aiohttp reads it.
    handler
        Its docstring's first line describes the operation.
    access
        Checked before the handler is called.
    answers
        Body by status, of answers that are no errors: a type that is written
        as JSON, a media type, or ``None`` for no body.
    errors
        Statuses of errors beyond those that follow from the other arguments.
    body
        Type of the JSON body.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    answers: Mapping[int, Any]
    errors: tuple[int, ...] = ()
    body: Any = None
    query: tuple[Query, ...] = ()
