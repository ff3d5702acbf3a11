import asyncio

import pytest
from aiohttp import streams
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import InvalidRequest
from gateway.http.bodies import parse_body
from gateway.http.schemas import ClusterRecord, CreateRequest


async def test_a_sender_who_goes_in_the_middle_is_no_bug_of_ours():
    loop = asyncio.get_running_loop()
    body = streams.StreamReader(BaseProtocol(loop), limit=2**16, loop=loop)
    body.feed_data(b"{")
    body.set_exception(ConnectionResetError("Connection lost"))
    request = make_mocked_request("POST", "/", payload=body)

    with pytest.raises(InvalidRequest, match="cannot be read"):
        await parse_body(request, CreateRequest)


def test_a_record_shows_no_keys_when_it_is_printed() -> None:
    record = ClusterRecord(
        name="c1",
        dashboard_route=None,
        status=PublicStatus.RUNNING,
        start_time=1,
        stop_time=None,
        options={},
        tls_key="PRIVATE",
    )

    assert repr(record) == "ClusterRecord('c1', <PublicStatus.RUNNING: 'RUNNING'>)"
