"""Keep the last log lines of a pod before it is taken away."""

from typing import Final

import structlog

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import KubeError, Transient
from backends.kubernetes.api.resources import PODS

log = structlog.get_logger(__name__)

# They go into the status, of which each writer sends and each reader gets all.
LINES: Final = 30
_LINE: Final = 400
_BYTES: Final = 16384


async def read_tail(
    client: KubeClient, namespace: str, pod: str, container: str
) -> tuple[str, ...]:
    """Return the last lines of a container, oldest first; empty if none are to be had.

    A pod that is gone, a node that is silent and a container that never ran have
    no log, and nothing waits for it.
    """
    query = {
        "container": container,
        "tailLines": str(LINES),
        "limitBytes": str(_BYTES),
    }
    for attempt in (1, 2):
        try:
            raw = await client.get(
                PODS, pod, namespace=namespace, subresource="log", query=query
            )
        except KubeError as error:
            if isinstance(error, Transient) and attempt == 1:
                continue
            log.info("log of pod not kept", pod=pod, reason=str(error))
            return ()
        return cut_lines(raw)
    return ()


def cut_lines(raw: bytes) -> tuple[str, ...]:
    r"""Return the last lines of a log, each shortened, without control characters.

    Examples
    --------
    >>> cut_lines(b"one\n\x1b[31mtwo\n")
    ('one', ' [31mtwo')
    """
    lines = raw.decode(errors="replace").splitlines()[-LINES:]
    return tuple(
        "".join(c if c.isprintable() or c == "\t" else " " for c in line[:_LINE])
        for line in lines
    )
