"""The table of routes: what the API takes, who may call it, what it answers.

The OpenAPI document and the tests of roles are made of this table.
"""

from typing import Final

from gateway.domain.cluster import PublicStatus
from gateway.domain.sync import SyncReply
from gateway.http import (
    clusters,
    dashboard,
    details,
    door,
    health,
    logs,
    me,
    metrics,
    reports,
    schemas,
    sizes,
)
from gateway.http.queries import COMPONENTS, MAX_TAIL
from gateway.http.route import Access, Query, Route

TEXT: Final = "text/plain"
HTML: Final = "text/html"

_CLUSTER: Final = "/api/v1/clusters/{name}"


_NAMES = ", ".join(status.value for status in PublicStatus)
_LIST_QUERY = (
    Query(
        "status",
        f"Comma-separated, of {_NAMES}, in any case; the active ones by default.",
        {"type": "string", "examples": ["RUNNING,FAILED"]},
    ),
    Query(
        "owner",
        "For admins: whose clusters; `*` for everybody's. One's own by default.",
        {"type": "string"},
    ),
)
_WAIT_QUERY = (
    Query(
        "wait",
        "Present, and empty or an integer other than 0: answer once the cluster is "
        "no longer PENDING, after 20 s at the latest. A failed one is a 409 then.",
        {"type": "string"},
    ),
)
_LOG_QUERY = (
    Query("component", "Whose log.", {"type": "string", "enum": list(COMPONENTS)}),
    Query("worker", "Name of a worker; all by default.", {"type": "string"}),
    Query(
        "tail",
        "Highest number of lines from before now, per process.",
        {"type": "integer", "minimum": 0, "maximum": MAX_TAIL, "default": 100},
    ),
    Query("follow", "Go on as lines come.", {"type": "boolean", "default": False}),
)

ROUTES: Final = (
    Route(
        "GET",
        "/api/health",
        health.check_health,
        Access.OPEN,
        {200: schemas.HealthReply},
    ),
    Route(
        "GET",
        "/api/ready",
        health.check_ready,
        Access.OPEN,
        {200: schemas.HealthReply},
        errors=(503,),
    ),
    Route(
        "GET",
        "/api/version",
        health.show_version,
        Access.OPEN,
        {200: schemas.VersionReply},
    ),
    Route("GET", "/metrics", metrics.show_metrics, Access.OPEN, {200: TEXT}),
    Route(
        "GET",
        "/api/v1/options",
        me.show_options,
        Access.USER,
        {200: schemas.OptionsReply},
    ),
    Route("GET", "/api/v1/me", me.show_me, Access.USER, {200: schemas.MeReply}),
    Route(
        "GET",
        "/api/v1/clusters/",
        clusters.list_clusters,
        Access.USER,
        {200: dict[str, schemas.ClusterRecord]},
        errors=(403, 422),
        query=_LIST_QUERY,
    ),
    Route(
        "POST",
        "/api/v1/clusters/",
        clusters.create_cluster,
        Access.USER,
        {201: schemas.CreateReply},
        errors=(409,),
        body=schemas.CreateRequest,
    ),
    Route(
        "GET",
        _CLUSTER,
        clusters.get_cluster,
        Access.USER,
        {200: schemas.ClusterRecord},
        errors=(404, 409),
        query=_WAIT_QUERY,
    ),
    Route(
        "DELETE", _CLUSTER, clusters.stop_cluster, Access.CLUSTER_OR_USER, {204: None}
    ),
    Route(
        "POST",
        f"{_CLUSTER}/scale",
        sizes.scale_cluster,
        Access.USER,
        {200: schemas.SizeReply},
        errors=(404, 409),
        body=schemas.ScaleRequest,
    ),
    Route(
        "POST",
        f"{_CLUSTER}/adapt",
        sizes.adapt_cluster,
        Access.USER,
        {200: schemas.SizeReply},
        errors=(404, 409),
        body=schemas.AdaptRequest,
    ),
    Route(
        "GET",
        f"{_CLUSTER}/events",
        details.list_events,
        Access.USER,
        {200: schemas.EventsReply},
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_CLUSTER}/workers",
        details.list_workers,
        Access.USER,
        {200: schemas.WorkersReply},
        errors=(404,),
    ),
    Route(
        "GET",
        f"{_CLUSTER}/logs",
        logs.read_logs,
        Access.USER,
        {200: TEXT},
        errors=(404, 422),
        query=_LOG_QUERY,
    ),
    Route(
        "POST",
        f"{_CLUSTER}/sync",
        door.sync_cluster,
        Access.CLUSTER,
        {200: SyncReply},
        errors=(404,),
        body=reports.SyncRequest,
    ),
    Route(
        "POST",
        f"{_CLUSTER}/heartbeat",
        door.beat_cluster,
        Access.CLUSTER,
        {200: None},
        body=reports.HeartbeatRequest,
    ),
    Route(
        "GET",
        "/api/v1/dashboard-auth",
        dashboard.check_visitor,
        Access.VISITOR,
        {200: None, 303: None, 401: HTML, 403: HTML, 404: HTML},
    ),
)
