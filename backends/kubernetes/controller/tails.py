"""What only a live read tells of a pod: its last log lines, the kubelet's warnings."""

import asyncio
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import KubeError, Transient
from backends.kubernetes.api.resources import EVENTS, PODS

log = structlog.get_logger(__name__)

# They go into the status, of which each writer sends and each reader gets all.
LINES: Final = 30
_LINE: Final = 400
_BYTES: Final = 16384
# The API server itself waits half a minute for a node that is silent.
_WAIT_S: Final = 4.0
# Repeated ones are one Event each, and count.
_EVENTS: Final = 50


class _Event(Struct, rename="camel"):
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None


class _Events(Struct):
    items: list[_Event]


_DECODER: Final = msgspec.json.Decoder(_Events)


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
            async with asyncio.timeout(_WAIT_S):
                raw = await client.get(
                    PODS, pod, namespace=namespace, subresource="log", query=query
                )
        except (KubeError, TimeoutError) as error:
            if isinstance(error, Transient) and attempt == 1:
                continue
            log.info("log of pod not kept", pod=pod, reason=str(error) or "no answer")
            return ()
        return cut_lines(raw)
    return ()


async def read_warning(client: KubeClient, namespace: str, pod: str, uid: str) -> str:
    """Return the last warning among a pod's Events as one line; "" if there is none."""
    fields = f"involvedObject.uid={uid},type=Warning"
    query = {"fieldSelector": fields, "limit": str(_EVENTS)}
    try:
        async with asyncio.timeout(_WAIT_S):
            raw = await client.read_list(EVENTS, namespace=namespace, query=query)
    except (KubeError, TimeoutError) as error:
        log.info("events of pod not read", pod=pod, reason=str(error) or "no answer")
        return ""
    found = sorted(_DECODER.decode(raw).items, key=lambda e: e.last_timestamp or "")
    if not found:
        return ""
    last = found[-1]
    return f"{last.reason}: {' '.join(last.message.split())}"


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
