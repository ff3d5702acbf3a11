"""List, create, show and stop clusters."""

from collections.abc import Sequence

from aiohttp import web

from gateway.aio.budget import Budget
from gateway.domain.cluster import Cluster, PublicStatus, StopReason
from gateway.domain.errors import (
    ClusterNotFound,
    ClusterNotRunning,
    Forbidden,
    RefusedOptions,
    Unavailable,
)
from gateway.domain.names import is_cluster_name
from gateway.domain.user import User
from gateway.http.access import find_cluster, get_name
from gateway.http.bodies import check_storable, parse_body
from gateway.http.identity import find_user, get_user
from gateway.http.queries import parse_statuses, parse_wait
from gateway.http.records import RECORDS
from gateway.http.replies import StoreAway, json_response, raw_json_response
from gateway.http.schemas import CreateReply, CreateRequest
from gateway.http.services import get_backend, get_settings
from gateway.http.waits import HELD, format_failure

_EVERYBODY = "*"


async def list_clusters(request: web.Request) -> web.Response:
    """Answer with the caller's clusters, or for admins with anybody's."""
    user = get_user(request)
    statuses = parse_statuses(request)
    owner = request.query.get("owner", user.name)
    if owner != user.name and not user.admin:
        raise Forbidden("only admins may list the clusters of others")
    found = await get_backend(request).list_clusters(
        None if owner == _EVERYBODY else owner, statuses
    )
    if get_settings(request).credentials_in_list:
        found = await _add_credentials(request, found, user)
    return raw_json_response(request.app[RECORDS].encode_list(found, user))


async def create_cluster(request: web.Request) -> web.Response:
    """Accept a new cluster; it is durable, and not running yet."""
    body = await parse_body(request, CreateRequest)
    options = body.cluster_options or {}
    if not isinstance(options, dict):
        raise RefusedOptions(f"options must be a dict, got {type(options).__name__!r}")
    check_storable(options, "cluster_options")
    name = await get_backend(request).start_cluster(get_user(request), options)
    return json_response(CreateReply(name), status=201)


async def get_cluster(request: web.Request) -> web.Response:
    """Answer with one cluster, with ``?wait`` once it has left PENDING."""
    waits = parse_wait(request)
    cluster = await (_wait_for_start(request) if waits else find_cluster(request))
    if waits and cluster.status is PublicStatus.FAILED:
        raise ClusterNotRunning(format_failure(cluster))
    return raw_json_response(
        request.app[RECORDS].encode_one(cluster, get_user(request))
    )


async def stop_cluster(request: web.Request) -> web.Response:
    """Accept a stop; for a cluster that is none of the caller's, do nothing."""
    backend, user = get_backend(request), find_user(request)
    try:
        if user is None:  # the cluster itself
            reason, message = StopReason.SCHEDULER, "stopped by its scheduler"
            await backend.stop_cluster(
                get_name(request), reason=reason, message=message
            )
        else:
            cluster = await find_cluster(request)
            own = cluster.owner == user.name
            reason = StopReason.USER if own else StopReason.ADMIN
            message = f"stopped by {'its user' if own else f'admin {user.name}'}"
            await backend.stop_cluster(cluster.name, reason=reason, message=message)
    except ClusterNotFound:
        pass
    return web.Response(status=204)


async def _wait_for_start(request: web.Request) -> Cluster:
    """Return the cluster once it has left PENDING, or when it is time.

    A store that does not answer is asked again until then: the stock client
    takes any error for the end of its cluster. What was read before it went
    away is an answer too, since the client asks again.
    """
    held, backend = request.app[HELD], get_backend(request)
    budget = Budget(get_settings(request).wait_s)
    cluster = None
    while True:
        try:
            cluster = await find_cluster(request)
            is_due = budget.is_over() or held.is_closing
            if is_due or cluster.status is not PublicStatus.PENDING:
                return cluster
            await held.until_change(
                backend, cluster.name, cluster.version, budget.remaining_s()
            )
        except Unavailable as error:
            if budget.is_over() or held.is_closing:
                if cluster is not None:
                    return cluster
                text = "the gateway's store does not answer; the cluster may go on"
                raise StoreAway(text) from error
            await held.pause(budget)


async def _add_credentials(
    request: web.Request, clusters: Sequence[Cluster], user: User
) -> list[Cluster]:
    backend = get_backend(request)
    filled = []
    for cluster in clusters:
        entry = cluster
        is_wanted = cluster.owner == user.name and is_cluster_name(cluster.name)
        if is_wanted and cluster.status is PublicStatus.RUNNING:
            try:
                entry = await backend.get_cluster(cluster.name)
            except ClusterNotFound:
                continue  # it has gone since the list was made
        filled.append(entry)
    return filled
