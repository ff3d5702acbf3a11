"""What concerns the caller: options on offer, who they are, what they hold."""

from aiohttp import web

from gateway.domain.policy import Caps, Usage
from gateway.http.identity import get_user
from gateway.http.replies import json_response
from gateway.http.schemas import AmountRecord, MeReply, OptionsReply, ShareRecord
from gateway.http.services import get_backend


async def show_options(request: web.Request) -> web.Response:
    """Answer with the options that the caller is offered."""
    options = await get_backend(request).get_cluster_options(get_user(request))
    return json_response(OptionsReply(options.get_specification()))


async def show_me(request: web.Request) -> web.Response:
    """Answer with who the caller is, and what they hold against their caps."""
    user = get_user(request)
    shares = await get_backend(request).get_usage(user)
    usage = [
        ShareRecord(share.key, _format_amounts(held), _format_amounts(share.caps))
        for share, held in shares
    ]
    return json_response(MeReply(user.name, sorted(user.groups), user.admin, usage))


def _format_amounts(amounts: Usage | Caps) -> AmountRecord:
    return AmountRecord(
        clusters=amounts.clusters,
        workers=amounts.workers,
        cores=amounts.cores,
        memory_bytes=amounts.memory_bytes,
    )
