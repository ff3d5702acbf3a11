"""What goes over the wire, as types. Pure.

Field names are the wire's. The OpenAPI document is made of these.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from gateway.domain.cluster import EventType, PublicStatus, WorkerState
from gateway.domain.names import MAX_CLUSTER_NAME
from gateway.domain.sync import MAX_WAIT_S

# What the stores keep: more is a mistake, and would be an error much later.
MAX_COUNT = 2**31 - 1
_MAX_GENERATION = 2**62
_MAX_SECONDS = 1e9

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Generation = Annotated[int, Meta(ge=0, le=_MAX_GENERATION)]
Seconds = Annotated[float, Meta(ge=0, le=_MAX_SECONDS)]
Port = Annotated[int, Meta(ge=1, le=65535)]
WorkerName = Annotated[str, Meta(max_length=253)]
Text = Annotated[str, Meta(max_length=1000)]
TimeMs = Annotated[int, Meta(description="Milliseconds since the epoch, UTC.")]


class ErrorReply(Struct, omit_defaults=True):
    """What every refusal and failure answers with."""

    error: Annotated[str, Meta(description="For people; clients show it verbatim.")]
    code: Annotated[str, Meta(description="For programs; stable.")]
    request_id: str | UnsetType = UNSET


class HealthReply(Struct):
    """The process answers."""

    status: str


class VersionReply(Struct):
    """Version of this gateway."""

    version: str


class OptionsReply(Struct):
    """The options that this user is offered, in the order of a form."""

    cluster_options: list[dict[str, Any]]


class ClusterRecord(Struct):
    """One cluster. The stock client refuses any further key."""

    name: Annotated[str, Meta(max_length=MAX_CLUSTER_NAME)]
    dashboard_route: Annotated[
        str | None,
        Meta(description="Opens in a browser without a password, for some hours."),
    ]
    status: PublicStatus
    start_time: TimeMs
    stop_time: TimeMs | None
    options: dict[str, Any]
    tls_cert: Annotated[
        str | None, Meta(description="PEM: the client's certificate, then its CA.")
    ] = None
    tls_key: Annotated[str | None, Meta(description="PEM, unencrypted.")] = None


class CreateRequest(Struct):
    """A new cluster; no options are the defaults."""

    cluster_options: Any = None


class CreateReply(Struct):
    """The cluster was accepted; it is not running yet."""

    name: str


class ScaleRequest(Struct):
    """A wanted number of workers."""

    count: Count


class AdaptRequest(Struct):
    """Bounds of the adaptive mode, or its end."""

    minimum: Count | None = None
    maximum: Count | None = None
    active: bool = True


class SizeReply(Struct):
    """The request was accepted; ``ok`` is false if it was cut to a limit."""

    ok: bool
    msg: str | None


class EventRecord(Struct):
    """Something that happened to a cluster."""

    time: TimeMs
    type: EventType
    reason: str
    message: str
    component: str
    worker: str | None


class EventsReply(Struct):
    """Events of a cluster, oldest first."""

    events: list[EventRecord]


class WorkerRecord(Struct):
    """One worker of a cluster."""

    name: str
    status: WorkerState
    start_time: TimeMs
    stop_time: TimeMs | None
    message: str


class WorkersReply(Struct):
    """Workers of a cluster by ordinal, those that ended of late included."""

    workers: list[WorkerRecord]


class AmountRecord(Struct):
    """Amounts, or caps on them; null is no cap."""

    clusters: int | None
    workers: int | None
    cores: float | None
    memory_bytes: int | None


class ShareRecord(Struct):
    """What a user or a group holds, against its caps."""

    share: Annotated[str, Meta(description="Such as `user:alice` or `group:lab`.")]
    used: AmountRecord
    caps: AmountRecord


class MeReply(Struct):
    """Who the gateway takes the caller for."""

    name: str
    groups: list[str]
    admin: bool
    usage: list[ShareRecord]


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
