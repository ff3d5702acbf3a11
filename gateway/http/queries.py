"""Parse query strings."""

from aiohttp import web

from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import InvalidRequest
from gateway.domain.names import parse_worker_ordinal
from gateway.ports import LogQuery

MAX_TAIL = 10_000
_TRUE = {"", "1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
COMPONENTS = ("scheduler", "worker")


def parse_wait(request: web.Request) -> bool:
    """Return whether ``?wait`` asks to wait; anything odd does not.

    Notes
    -----
    Present and empty is yes: that is what the stock client sends. Otherwise it
    is an integer other than 0 (peer: dask-gateway 2026.3).
    """
    text = request.query.get("wait")
    if text is None:
        return False
    try:
        return not text or bool(int(text))
    except ValueError:
        return False


def parse_statuses(request: web.Request) -> frozenset[PublicStatus] | None:
    """Return the wanted statuses, ``None`` for the active ones.

    Raises
    ------
    InvalidRequest
        For a name that is no status, an empty one too.
    """
    values = request.query.getall("status", None)
    if values is None:
        return None
    names = [name for value in values for name in value.split(",")]
    statuses = set()
    for name in names:
        try:
            statuses.add(PublicStatus(name.upper()))
        except ValueError:
            raise InvalidRequest(
                "", f"{name[:64]!r} is not a valid ClusterStatus"
            ) from None
    return frozenset(statuses)


def parse_log_query(request: web.Request, cluster: str) -> LogQuery:
    """Return which log lines of ``cluster`` are wanted.

    Raises
    ------
    InvalidRequest
        If a value does not fit, with its name.
    """
    query = request.query
    component = query.get("component", COMPONENTS[0])
    if component not in COMPONENTS:
        raise InvalidRequest("component", f"must be one of {', '.join(COMPONENTS)}")
    worker = query.get("worker")
    if worker is not None and parse_worker_ordinal(cluster, worker) is None:
        raise InvalidRequest("worker", "is not the name of a worker of this cluster")
    if worker is not None and component != COMPONENTS[1]:
        raise InvalidRequest("worker", "only goes with component=worker")
    return LogQuery(
        component=component,
        worker=worker,
        tail=_parse_tail(query.get("tail", "100")),
        follow=_parse_flag("follow", query.get("follow", "0")),
    )


def _parse_tail(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_TAIL))):
        raise InvalidRequest("tail", f"must be an integer of 0 to {MAX_TAIL}")
    tail = int(text)
    if tail > MAX_TAIL:
        raise InvalidRequest("tail", f"must be an integer of 0 to {MAX_TAIL}")
    return tail


def _parse_flag(name: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise InvalidRequest(name, "must be true or false")
