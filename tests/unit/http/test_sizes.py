import pytest

from gateway.domain.scaling import clamp_adapt
from tests.support.builders import a_cluster


@pytest.mark.parametrize("running", [False, True])
async def test_scale_is_accepted_by_a_cluster_that_starts_or_runs(api, running):
    builder = a_cluster()
    entry = api.backend.add((builder.running() if running else builder).build())

    answer = await api.post(
        "/api/v1/clusters/c1/scale", user="alice", json={"count": 3}
    )

    assert answer.status == 200
    assert answer.json == {"ok": True, "msg": None}
    assert entry.replicas == 3


async def test_scale_above_the_limit_is_cut_and_said(api):
    entry = api.backend.add(a_cluster().running().with_limit(2).build())

    answer = await api.post(
        "/api/v1/clusters/c1/scale", user="alice", json={"count": 3}
    )

    assert answer.json["ok"] is False
    assert "Scaling to 2 instead" in answer.json["msg"]
    assert entry.replicas == 2


@pytest.mark.parametrize(
    "body",
    [
        '{"count": true}',
        '{"count": 1.0}',
        '{"count": null}',
        '{"count": "1"}',
        '{"count": -1}',
        '{"count": NaN}',
        '{"count": 1e3}',
        '{"count": 99999999999999999999}',
        '{"count": [1]}',
        "{}",
        "[]",
        "null",
        "3",
        "",
        "{",
        '{"count": 1} x',
        '"\\ud800"',
    ],
)
async def test_w20_a_count_that_is_no_count_is_a_422(api, body):
    entry = api.backend.add(a_cluster().running().build())

    answer = await api.post("/api/v1/clusters/c1/scale", user="alice", data=body)

    assert answer.status == 422
    assert answer.json["code"] == "invalid_request"
    assert entry.generation == 1


async def test_a_refusal_names_the_field(api):
    api.backend.add(a_cluster().running().build())

    answer = await api.post(
        "/api/v1/clusters/c1/scale", user="alice", json={"count": "x"}
    )

    assert answer.json["error"] == (
        "count: Scale expects a non-negative integer: Expected `int`, got `str`"
    )


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ({"minimum": 1, "maximum": 3, "active": True}, (1, 3)),
        ({"minimum": None, "maximum": None, "active": True}, (0, 4)),
        ({}, (0, 4)),
    ],
)
async def test_adapt_sets_bounds(api, body, want):
    entry = api.backend.add(a_cluster().with_limit(4).build())

    answer = await api.post("/api/v1/clusters/c1/adapt", user="alice", json=body)

    assert answer.json == {"ok": True, "msg": None}
    assert (entry.adaptive.minimum, entry.adaptive.maximum) == want


async def test_adapt_above_the_limit_is_cut_and_said(api):
    api.backend.add(a_cluster().with_limit(4).build())

    answer = await api.post(
        "/api/v1/clusters/c1/adapt", user="alice", json={"minimum": 5, "maximum": 9}
    )

    assert answer.json["ok"] is False
    assert answer.json["msg"] == clamp_adapt(5, 9, 4, default=0).message


async def test_adapt_can_be_ended_and_scale_ends_it_too(api):
    entry = api.backend.add(a_cluster().build())
    path = "/api/v1/clusters/c1"
    await api.post(f"{path}/adapt", user="alice", json={"maximum": 3})
    ended = await api.post(f"{path}/adapt", user="alice", json={"active": False})
    assert ended.json == {"ok": True, "msg": None}
    assert entry.adaptive is None

    await api.post(f"{path}/adapt", user="alice", json={"maximum": 3})
    await api.post(f"{path}/scale", user="alice", json={"count": 1})

    assert entry.adaptive is None
    assert entry.replicas == 1


@pytest.mark.parametrize(
    "body",
    [
        {"minimum": -1},
        {"minimum": True},
        {"maximum": "3"},
        {"minimum": 3, "maximum": 2},
        {"active": 1},
        {"active": None},
        {"maximum": 2**31},
    ],
)
async def test_w19_bounds_are_checked(api, body):
    entry = api.backend.add(a_cluster().running().build())

    answer = await api.post("/api/v1/clusters/c1/adapt", user="alice", json=body)

    assert answer.status == 422
    assert entry.adaptive is None


@pytest.mark.parametrize("call", ["scale", "adapt"])
async def test_a_cluster_that_has_ended_takes_no_number(api, call):
    api.backend.add(a_cluster().stopped().build())

    answer = await api.post(
        f"/api/v1/clusters/c1/{call}", user="alice", json={"count": 1}
    )

    assert answer.status == 409
    assert answer.json["code"] == "cluster_not_running"


@pytest.mark.parametrize("call", ["scale", "adapt"])
@pytest.mark.parametrize("name", ["c1", "absent", "Not_A_Name"])
async def test_nobody_sizes_anothers_cluster(api, call, name):
    entry = api.backend.add(a_cluster().of("bob").running().build())

    answer = await api.post(
        f"/api/v1/clusters/{name}/{call}", user="alice", json={"count": 1}
    )

    assert answer.status == 404
    assert answer.json["error"] == f"Cluster {name} not found"
    assert entry.generation == 1
