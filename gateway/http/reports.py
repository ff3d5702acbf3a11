"""What schedulers report over the wire, as types. Pure.

Field names are the wire's. The OpenAPI document is made of these.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gateway.domain.sync import MAX_WAIT_S
from gateway.http.schemas import MAX_COUNT, Count

_MAX_GENERATION = 2**62
_MAX_SECONDS = 1e9

Generation = Annotated[int, Meta(ge=0, le=_MAX_GENERATION)]
Seconds = Annotated[float, Meta(ge=0, le=_MAX_SECONDS)]
Port = Annotated[int, Meta(ge=1, le=65535)]
WorkerName = Annotated[str, Meta(max_length=253)]
Text = Annotated[str, Meta(max_length=1000)]


class PortsRecord(Struct):
    """Where a scheduler listens."""

    scheduler: Port
    dashboard: Port | None = None


class SyncRequest(Struct):
    """A scheduler's report; unknown keys are from another version, and ignored."""

    protocol: Annotated[int, Meta(ge=1, le=MAX_COUNT)]
    seen: Generation = 0
    wait_s: Annotated[
        float, Meta(ge=0, le=_MAX_SECONDS, description=f"Cut to {MAX_WAIT_S:g}.")
    ] = 0.0
    adaptive_id: Text | None = None
    target: Count | None = None
    workers: tuple[WorkerName, ...] = ()
    outsiders: Count = 0
    draining: tuple[WorkerName, ...] = ()
    held: dict[WorkerName, Text] = {}
    clients: Count = 0
    no_client_s: Seconds = 0.0
    unfinished: Generation = 0
    idle_s: Seconds = 0.0
    ports: PortsRecord | None = None
    versions: dict[Text, Text] = {}


class HeartbeatRequest(Struct):
    """What the stock preload reports. Nothing is made of it."""

    count: int
    active_workers: list[str]
    closing_workers: list[str]
    closed_workers: list[str]
    scheduler_address: str = ""
    dashboard_address: str = ""
    api_address: str = ""
