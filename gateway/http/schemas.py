"""What goes over the wire between users and the API, as types. Pure.

Field names are the wire's. The OpenAPI document is made of these.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from typing_extensions import override

from gateway.domain.cluster import EventType, PublicStatus, WorkerState
from gateway.domain.names import MAX_CLUSTER_NAME

# What the stores keep: more is a mistake, and would be an error much later.
MAX_COUNT = 2**31 - 1

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
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
    dashboard_route: Annotated[str | None, Meta(description="Opens in a browser.")]
    status: PublicStatus
    start_time: TimeMs
    stop_time: TimeMs | None
    options: dict[str, Any]
    tls_cert: Annotated[
        str | None, Meta(description="PEM: the client's certificate, then its CA.")
    ] = None
    tls_key: Annotated[str | None, Meta(description="PEM, unencrypted.")] = None

    @override
    def __repr__(self) -> str:
        return f"ClusterRecord({self.name!r}, {self.status!r})"


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
