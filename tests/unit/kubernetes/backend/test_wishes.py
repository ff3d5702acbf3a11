"""Of many wishes for one cluster the last is written, and all are answered."""

import asyncio
from datetime import UTC, datetime

import pytest

from backends.kubernetes.backend.requests import request_scale
from backends.kubernetes.backend.wishes import Wish, WishQueue
from backends.kubernetes.crd.values import (
    ClusterSpec,
    DaskCluster,
    LimitsSpec,
    Owner,
)
from gateway.domain.errors import InvalidRequest, Unavailable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = DaskCluster(
    name="c1",
    namespace="gateway",
    uid="u",
    resource_version="7",
    spec=ClusterSpec(owner=Owner("alice"), limits=LimitsSpec(max_workers=500)),
)


def scale(replicas: int) -> Wish:
    return Wish(
        lambda seen, others: request_scale(seen, replicas, others, now=NOW),
        lambda accepted: accepted.replicas,
    )


class Server:
    def __init__(self) -> None:
        self.written: list[int] = []
        self.fails = False

    async def find(self, _: str) -> DaskCluster:
        return CLUSTER

    async def apply(self, _: str, wish: Wish):
        outcome = wish.decide(CLUSTER, ())[1]
        await asyncio.sleep(0)
        if self.fails:
            raise Unavailable("away")
        self.written.append(outcome.replicas)
        return outcome


async def test_a_thousand_wishes_cost_a_few_writes_and_the_last_one_counts() -> None:
    server = Server()
    queue = WishQueue(server.apply, server.find)
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def ask(number: int) -> int:
        await asyncio.sleep(number / 4000)
        return (await queue.submit("c1", scale(number))).replicas

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(n)) for n in range(1000)]

    # Each is answered as if it had been the last for a moment.
    assert [t.result() for t in tasks] == [min(n, 500) for n in range(1000)]
    assert server.written[-1] == 500
    assert len(server.written) <= 10 * (loop.time() - begin) + 2
    assert queue._lines == {}


async def test_one_wish_is_written_at_once() -> None:
    server = Server()
    queue = WishQueue(server.apply, server.find)

    await queue.submit("c1", scale(3))

    assert server.written == [3]


async def test_a_wrong_wish_does_not_stand_for_others() -> None:
    server = Server()
    queue = WishQueue(server.apply, server.find)

    with pytest.raises(InvalidRequest):
        await queue.submit("c1", scale(-1))

    assert server.written == []


async def test_a_failure_is_told_to_all_whose_wish_was_not_written() -> None:
    server = Server()
    server.fails = True
    queue = WishQueue(server.apply, server.find)

    results = await asyncio.gather(
        *(queue.submit("c1", scale(n)) for n in range(3)), return_exceptions=True
    )

    assert [type(r) for r in results] == [Unavailable] * 3
    assert queue._lines == {}
