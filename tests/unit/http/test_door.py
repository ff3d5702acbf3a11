import asyncio
import io
import json

import pytest

from gateway.domain.sync import Ports, SyncReport
from tests.support.api import running_api
from tests.support.builders import a_cluster, token
from tests.support.eventually import eventually
from tests.support.memory_backend import MemoryBackend

SYNC = "/api/v1/clusters/c1/sync"
BEAT = "/api/v1/clusters/c1/heartbeat"
HEARTBEAT = {
    "count": 2,
    "active_workers": ["w1"],
    "closing_workers": [],
    "closed_workers": [],
    "scheduler_address": "tls://127.0.0.1:1",
    "dashboard_address": "",
    "api_address": "http://127.0.0.1:2",
}


@pytest.fixture
def entry(api):
    return api.backend.add(a_cluster().running().build())


async def test_a_report_arrives_whole_and_is_answered_by_what_is_wanted(api, entry):
    entry.replicas = 2
    answer = await api.post(
        SYNC,
        headers=token(entry.token),
        json={
            "protocol": 1,
            "seen": 0,
            "adaptive_id": "a1",
            "target": 3,
            "workers": ["c1-worker-0"],
            "outsiders": 1,
            "draining": ["c1-worker-1"],
            "held": {"c1-worker-1": "only copy"},
            "clients": 1,
            "no_client_s": 1.5,
            "unfinished": 7,
            "idle_s": 2,
            "ports": {"scheduler": 8786, "dashboard": None},
            "versions": {"distributed": "2026.8.0"},
            "something_newer": [1, 2],
        },
    )

    assert answer.json == {
        "generation": 1,
        "replicas": 2,
        "adaptive": None,
        "active": True,
        "protocol": 1,
        "due_s": None,
        "notice": "",
    }
    assert entry.reports == [
        SyncReport(
            protocol=1,
            adaptive_id="a1",
            target=3,
            workers=("c1-worker-0",),
            outsiders=1,
            draining=("c1-worker-1",),
            held={"c1-worker-1": "only copy"},
            clients=1,
            no_client_s=1.5,
            unfinished=7,
            idle_s=2,
            ports=Ports(8786, None),
            versions={"distributed": "2026.8.0"},
        )
    ]


async def test_adaptive_bounds_are_told_with_their_id(api, entry):
    await api.post("/api/v1/clusters/c1/adapt", user="alice", json={"maximum": 3})

    answer = await api.post(SYNC, headers=token(entry.token), json={"protocol": 1})

    assert answer.json["adaptive"] == {
        "id": entry.adaptive.id,
        "minimum": 0,
        "maximum": 3,
    }


async def test_a_held_sync_is_answered_by_the_next_change_and_reports_once(api, entry):
    async with asyncio.TaskGroup() as group:
        held = group.create_task(
            api.post(
                SYNC,
                headers=token(entry.token),
                json={"protocol": 1, "seen": 1, "wait_s": 45},
            )
        )
        await eventually(lambda: "wait_for_change" in api.backend.calls)
        await api.backend.change("c1", message="of no concern to the scheduler")
        await eventually(lambda: api.backend.calls.count("wait_for_change") == 2)
        assert not held.done()
        await api.backend.want("c1", replicas=5)

    assert held.result().json["replicas"] == 5
    assert len(entry.reports) == 1


async def test_a_replica_that_is_behind_waits_until_it_has_caught_up(api, entry):
    async with asyncio.TaskGroup() as group:
        held = group.create_task(
            api.post(
                SYNC,
                headers=token(entry.token),
                json={"protocol": 1, "seen": 2, "wait_s": 45},
            )
        )
        await eventually(lambda: "wait_for_change" in api.backend.calls)
        await api.backend.want("c1", replicas=1)
        await eventually(lambda: api.backend.calls.count("wait_for_change") == 2)
        await api.backend.want("c1", replicas=2)

    assert held.result().json["generation"] == 3


async def test_a_sync_without_a_wait_is_answered_at_once(api, entry):
    answer = await api.post(
        SYNC, headers=token(entry.token), json={"protocol": 1, "seen": 9}
    )

    assert answer.json["generation"] == 1
    assert "wait_for_change" not in api.backend.calls


async def test_a_held_sync_ends_when_its_time_is_over(api, entry):
    answer = await api.post(
        SYNC,
        headers=token(entry.token),
        json={"protocol": 1, "seen": 1, "wait_s": 0.05},
    )

    assert answer.json["generation"] == 1


async def test_a_held_sync_is_answered_when_time_alone_may_end_the_cluster(
    api, entry, monkeypatch
):
    """The plugin then tells fresh facts, and these decide, not 45 s later."""
    monkeypatch.setattr("gateway.http.door._LEAST_HOLD_S", 0.2)
    loop = asyncio.get_running_loop()
    took = []
    for entry.due_s in (0.5, 0.0):
        begin = loop.time()
        answer = await api.post(
            SYNC,
            headers=token(entry.token),
            json={"protocol": 1, "seen": 1, "wait_s": 45},
        )
        took.append(loop.time() - begin)

        assert answer.status == 200
        assert answer.json["generation"] == 1
        assert answer.json["due_s"] == entry.due_s

    # Not before it is due, nor at once where it is over and nothing happened yet.
    assert 0.6 <= took[0] < 20
    assert 0.3 <= took[1] < 20


async def test_a_gateway_that_stops_answers_its_held_syncs():
    backend = MemoryBackend()
    async with running_api(backend) as api, asyncio.TaskGroup() as group:
        entry = backend.add(a_cluster().running().build())
        held = group.create_task(
            api.post(
                SYNC,
                headers=token(entry.token),
                json={"protocol": 1, "seen": 1, "wait_s": 45},
            )
        )
        await eventually(lambda: "wait_for_change" in backend.calls)
        await api.server.close()

    assert held.result().status == 200


async def test_a_stopped_cluster_is_told_so(api, entry):
    await api.delete("/api/v1/clusters/c1", user="alice")

    answer = await api.post(SYNC, headers=token(entry.token), json={"protocol": 1})

    assert answer.json["active"] is False


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"protocol": "1"},
        {"protocol": 1, "wait_s": -1},
        {"protocol": 1, "wait_s": "1"},
        {"protocol": 1, "workers": "c1-worker-0"},
        {"protocol": 1, "workers": [1]},
        {"protocol": 1, "ports": {"scheduler": 0}},
        {"protocol": 1, "ports": {"scheduler": 65536}},
        {"protocol": 1, "ports": 8786},
        {"protocol": 1, "clients": True},
        {"protocol": 1, "target": -1},
        {"protocol": 1, "held": {"w": 1}},
        {"protocol": 1, "seen": 2**63},
        [],
        None,
    ],
)
async def test_a_malformed_report_is_a_422_and_counts_for_nothing(api, entry, body):
    answer = await api.post(SYNC, headers=token(entry.token), json=body)

    assert answer.status == 422
    assert entry.reports == []


@pytest.mark.parametrize("path", [SYNC, BEAT])
@pytest.mark.parametrize(
    "header",
    [
        None,
        "token",
        "token wrong",
        "token é",
        f"token {'x' * 300}",
        "Basic YWxpY2U6",
        "bearer abc",
    ],
)
async def test_only_the_clusters_token_opens_the_door(api, entry, path, header):
    headers = {} if header is None else {"Authorization": header}

    answer = await api.post(path, headers=headers, json={"protocol": 1})

    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "token"
    assert entry.reports == []


@pytest.mark.parametrize("name", ["absent", "No_Name"])
async def test_an_unknown_cluster_looks_like_a_wrong_token(api, entry, name):
    answer = await api.post(
        f"/api/v1/clusters/{name}/sync", headers=token(entry.token), json={}
    )

    assert answer.status == 401


async def test_a_token_opens_its_own_cluster_only_and_no_users_route(api, entry):
    api.backend.add(a_cluster("c2").running().build())

    other = await api.post(
        "/api/v1/clusters/c2/sync", headers=token(entry.token), json={"protocol": 1}
    )
    shown = await api.get("/api/v1/clusters/c1", headers=token(entry.token))
    listed = await api.get("/api/v1/clusters/", headers=token(entry.token))

    assert [other.status, shown.status, listed.status] == [401, 401, 401]
    assert shown.headers["WWW-Authenticate"].startswith("Basic")


async def test_a_wrong_token_of_a_delete_is_told_the_users_way_in(api, entry):
    answer = await api.delete("/api/v1/clusters/c1", headers=token("wrong"))

    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert entry.cluster.status == "RUNNING"


async def test_a_heartbeat_is_taken_and_decides_nothing(api, entry):
    answer = await api.post(BEAT, headers=token(entry.token), json=HEARTBEAT)

    assert (answer.status, answer.text) == (200, "")
    assert entry.replicas == 0


async def test_a_heartbeat_that_would_retire_workers_is_not_confirmed(api, entry):
    answer = await api.post(
        BEAT,
        headers=token(entry.token),
        json={**HEARTBEAT, "closing_workers": ["w1"]},
    )

    assert answer.status == 503


async def test_w10_a_heartbeat_with_a_hundred_thousand_names_is_taken(api, entry):
    names = [f"{i:032x}" for i in range(100_000)]

    answer = await api.post(
        BEAT,
        headers=token(entry.token),
        data=io.BytesIO(json.dumps({**HEARTBEAT, "closed_workers": names}).encode()),
    )

    assert answer.status == 200


@pytest.mark.parametrize("body", [{}, [], {**HEARTBEAT, "count": "2"}])
async def test_w20_a_malformed_heartbeat_is_a_422(api, entry, body):
    answer = await api.post(BEAT, headers=token(entry.token), json=body)

    assert answer.status == 422


@pytest.mark.parametrize(("path", "limit"), [(SYNC, 1 << 20), (BEAT, 16 << 20)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_a_413(api, entry, path, limit, chunked):
    async def stream():
        for _ in range(limit // 65536 + 1):
            yield b" " * 65536

    answer = await api.post(
        path,
        headers=token(entry.token),
        data=stream() if chunked else io.BytesIO(b" " * (limit + 1)),
    )

    assert answer.status == 413
    assert answer.json["code"] == "body_too_large"


async def test_a_store_that_goes_away_while_a_sync_is_held_is_waited_for(api, entry):
    async with asyncio.TaskGroup() as group:
        held = group.create_task(
            api.post(
                SYNC,
                headers=token(entry.token),
                json={"protocol": 1, "seen": 1, "wait_s": 45},
            )
        )
        await eventually(lambda: "wait_for_change" in api.backend.calls)
        api.backend.is_away = True
        await api.backend.wake()
        asked = len(api.backend.calls)
        await eventually(lambda: len(api.backend.calls) > asked)
        api.backend.is_away = False
        await api.backend.want("c1", replicas=4)

    assert held.result().json["replicas"] == 4
