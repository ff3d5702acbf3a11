"""Caps hold however many calls come at once, and to whichever server."""

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from dask_gateway import BasicAuth, Gateway
from dask_gateway.client import GatewayWarning

from tests.support.rest import Reply, Rest
from tests.support.stack import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

GIB = 2**30
Pair = tuple[Rest, Rest]


async def create_many(pair: Pair, users: Iterable[str]) -> list[Reply]:
    """Send one create for each of ``users``, all at once, to the servers in turn."""
    calls = [
        pair[n % 2].call("POST", "/api/v1/clusters/", user=user, json={})
        for n, user in enumerate(users)
    ]
    return await asyncio.gather(*calls)


async def find_usage(rest: Rest, user: str) -> dict[str, dict]:
    found = (await rest.get("/api/v1/me", user=user))["usage"]
    return {share["share"]: share for share in found}


async def adapt(rest: Rest, name: str, user: str, **bounds: int) -> dict:
    path = f"/api/v1/clusters/{name}/adapt"
    reply = await rest.call("POST", path, user=user, json=bounds)
    assert reply.status == 200, reply.text
    return reply.json


# Clusters.


async def test_twenty_creates_at_once_against_a_cap_of_three_give_three(pair):
    replies = await create_many(pair, ["alice"] * 20)

    assert Counter(r.status for r in replies) == {201: 3, 422: 17}
    for reply in replies:
        if reply.status == 422:
            assert reply.json["code"] == "limit_exceeded"
            assert "user 'alice' may use at most 3 clusters" in reply.json["error"]
    accepted = {r.json["name"] for r in replies if r.status == 201}
    for rest in pair:
        assert await rest.list_active() == accepted
        usage = (await find_usage(rest, "alice"))["user:alice"]
        assert (usage["used"]["clusters"], usage["caps"]["clusters"]) == (3, 3)


async def test_a_stop_makes_room_for_exactly_one(pair):
    first = await create_many(pair, ["alice"] * 3)
    await pair[0].stop(first[0].json["name"])

    again = await create_many(pair, ["alice"] * 10)

    assert [r.status for r in first] == [201] * 3
    assert Counter(r.status for r in again) == {201: 1, 422: 9}


async def test_creates_and_stops_at_once_never_pass_the_cap(pair):
    async def live(rest: Rest) -> None:
        for _ in range(4):
            reply = await rest.call("POST", "/api/v1/clusters/", json={})
            if reply.status == 201:
                await rest.stop(reply.json["name"])

    async def watch() -> int:
        most = 0
        while not done.is_set():
            for rest in pair:
                usage = (await find_usage(rest, "alice"))["user:alice"]
                most = max(most, usage["used"]["clusters"])
        return most

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await asyncio.gather(*(live(pair[n % 2]) for n in range(6)))
        done.set()

    assert 0 < watching.result() <= 3
    assert await pair[1].list_active() == set()


async def test_a_groups_cap_is_shared_by_its_members(pair):
    users = [f"member-{n % 3}" for n in range(18)]
    replies = await create_many(pair, users)

    held = Counter(
        user for user, r in zip(users, replies, strict=True) if r.status == 201
    )
    assert held.total() == 4
    assert max(held.values()) <= 3
    refused = [r.json["error"] for r in replies if r.status == 422]
    assert any("group 'lab' may use at most 4 clusters" in text for text in refused)
    for rest in pair:
        usage = await find_usage(rest, "member-1")
        assert usage["group:lab"]["used"]["clusters"] == 4
        assert set(usage) == {"group:lab", "user:member-1"}


async def test_who_is_not_capped_is_not_refused(pair):
    replies = await create_many(pair, ["free"] * 8)

    assert [r.status for r in replies] == [201] * 8
    assert await find_usage(pair[0], "free") == {}


# Sizes.


async def test_scales_of_two_clusters_at_once_share_the_cap_on_workers(pair):
    user = "worker-capped"
    names = [await rest.create(user=user) for rest in pair]
    for _ in range(3):
        for rest, name in zip(pair, names, strict=True):
            await rest.scale(name, 0, user=user)
        answers = await asyncio.gather(
            *(r.scale(n, 4, user=user) for r, n in zip(pair, names, strict=True))
        )

        assert sorted(a["ok"] for a in answers) == [False, True]
        [cut] = [a["msg"] for a in answers if not a["ok"]]
        assert cut == (
            "Scale request of 4 workers would exceed the limit of user "
            "'worker-capped'. Scaling to 1 instead."
        )
        usage = await find_usage(pair[0], user)
        assert usage[f"user:{user}"]["used"]["workers"] == 5
        assert set(usage) == {f"user:{user}"}


@pytest.mark.parametrize(
    ("user", "field", "cap", "want_workers"),
    [
        # A scheduler of one core, workers of one.
        pytest.param("core-capped", "cores", 6, 5, id="cores"),
        # A scheduler of 2 GiB, workers of one.
        pytest.param("memory-capped", "memory_bytes", 10 * GIB, 8, id="memory"),
    ],
)
async def test_amounts_are_capped_on_scale_and_adapt(
    pair, user, field, cap, want_workers
):
    first, second = pair
    name = await first.create(user=user)

    scaled = await second.scale(name, 99, user=user)
    usage = (await find_usage(first, user))[f"user:{user}"]
    adapted = await adapt(first, name, user, minimum=7, maximum=99)
    bounded = (await find_usage(second, user))[f"user:{user}"]

    assert f"Scaling to {want_workers} instead" in scaled["msg"]
    assert f"limit of user '{user}'" in scaled["msg"]
    low = min(7, want_workers)
    want = f"Using `maximum={want_workers}, minimum={low}` instead"
    assert want in adapted["msg"]
    for found in (usage, bounded):
        assert found["used"]["workers"] == want_workers
        assert found["used"][field] == found["caps"][field] == cap
    refused = await second.call("POST", "/api/v1/clusters/", user=user, json={})
    assert (refused.status, refused.json["code"]) == (422, "limit_exceeded")


async def test_an_adaptive_cluster_counts_with_its_maximum_until_it_ends(pair):
    user = "worker-capped"
    first, second = pair
    names = [await rest.create(user=user) for rest in pair]
    unbounded = await adapt(first, names[0], user)
    nothing_left = await second.scale(names[1], 1, user=user)

    assert "Using `maximum=5, minimum=0` instead" in unbounded["msg"]
    assert "Scaling to 0 instead" in nothing_left["msg"]

    path = f"/api/v1/clusters/{names[0]}/adapt"
    reply = await second.call("POST", path, user=user, json={"active": False})
    accepted = await first.scale(names[1], 5, user=user)
    assert (reply.json["ok"], accepted["ok"]) == (True, True)


async def test_an_admins_call_counts_for_the_owner(pair):
    user = "worker-capped"
    name = await pair[0].create(user=user)

    answer = await pair[1].scale(name, 50, user="root")

    assert "limit of user 'worker-capped'. Scaling to 5 instead" in answer["msg"]


async def test_a_groups_cap_on_workers_is_shared(pair):
    users = ["member-0", "member-1", "member-2"]
    names = [await pair[n % 2].create(user=user) for n, user in enumerate(users)]
    answers = await asyncio.gather(
        *(
            pair[n % 2].scale(name, 4, user=user)
            for n, (name, user) in enumerate(zip(names, users, strict=True))
        )
    )

    assert sorted(a["ok"] for a in answers) == [False, False, True]
    cut = [a["msg"] for a in answers if not a["ok"]]
    assert all("limit of group 'lab'" in text for text in cut)
    usage = (await find_usage(pair[0], "member-0"))["group:lab"]
    assert usage["used"]["workers"] == 6


async def test_a_shape_that_does_not_fit_is_refused_at_once(pair):
    reply = await pair[0].call(
        "POST",
        "/api/v1/clusters/",
        user="core-capped",
        json={"cluster_options": {"scheduler_cores": 7}},
    )

    assert (reply.status, reply.json["code"]) == (422, "limit_exceeded")
    assert "user 'core-capped' may use at most 6 cores" in reply.json["error"]
    assert await pair[1].list_active(user="core-capped") == set()


# As the stock client shows it.


async def test_the_stock_client_raises_and_warns_with_the_reason(servers, pair):
    async with Gateway(
        servers.address, auth=BasicAuth("worker-capped", PASSWORD), asynchronous=True
    ) as gateway:
        name = await gateway.submit()
        with pytest.warns(GatewayWarning, match="Scaling to 5 instead"):
            await gateway.scale_cluster(name, 9)
        with pytest.warns(GatewayWarning, match="Using `maximum=5, minimum=2` instead"):
            await gateway.adapt_cluster(name, minimum=2, maximum=9)
    await create_many(pair, ["alice"] * 3)
    async with Gateway(
        servers.address, auth=BasicAuth("alice", PASSWORD), asynchronous=True
    ) as gateway:
        with pytest.raises(ValueError, match="may use at most 3 clusters"):
            await gateway.submit()
