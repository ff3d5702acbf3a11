import asyncio

import pytest

from gateway.domain.cluster import PublicStatus
from gateway.domain.options import Integer, Options
from tests.support.api import running_api
from tests.support.builders import KEYS, a_cluster
from tests.support.eventually import eventually
from tests.support.memory_backend import MemoryBackend

KEYS_OF_A_RECORD = [
    "name",
    "dashboard_route",
    "status",
    "start_time",
    "stop_time",
    "options",
    "tls_cert",
    "tls_key",
]


async def test_a_record_has_exactly_the_keys_that_the_stock_client_takes(api):
    api.backend.add(a_cluster().running().with_options(cores=2).build())

    answer = await api.get("/api/v1/clusters/c1", user="alice")

    assert answer.status == 200
    assert list(answer.json) == KEYS_OF_A_RECORD
    assert answer.json["status"] == "RUNNING"
    assert answer.json["start_time"] == 1000
    assert answer.json["stop_time"] is None
    assert answer.json["options"] == {"cores": 2}


async def test_the_owner_of_a_running_cluster_gets_its_keys(api):
    api.backend.add(a_cluster().running().build())

    answer = await api.get("/api/v1/clusters/c1", user="alice")

    assert answer.json["tls_cert"] == KEYS.certificate
    assert answer.json["tls_key"] == KEYS.key


async def test_an_admin_sees_the_cluster_without_its_keys(api):
    api.backend.add(a_cluster().running().build())

    answer = await api.get("/api/v1/clusters/c1", user="root")

    assert answer.status == 200
    assert answer.json["tls_cert"] is None
    assert answer.json["tls_key"] is None


async def test_a_cluster_that_does_not_run_has_neither_keys_nor_a_dashboard(api):
    api.backend.add(a_cluster().build())

    answer = await api.get("/api/v1/clusters/c1", user="alice")

    assert answer.json["tls_key"] is None
    assert answer.json["dashboard_route"] is None


async def test_w31_lists_carry_no_keys(api):
    api.backend.add(a_cluster().running().build())

    answer = await api.get("/api/v1/clusters/", user="alice")

    assert list(answer.json["c1"]) == KEYS_OF_A_RECORD
    assert answer.json["c1"]["tls_key"] is None
    assert KEYS.key.strip() not in answer.text


async def test_lists_carry_keys_of_ones_own_where_the_operator_says_so():
    async with running_api(credentials_in_list=True) as api:
        api.backend.add(a_cluster("c1").running().build())
        api.backend.add(a_cluster("c2").build())
        api.backend.add(a_cluster("c3").of("bob").running().build())

        own = await api.get("/api/v1/clusters/", user="alice")
        everybodys = await api.get("/api/v1/clusters/?owner=*", user="root")

    assert own.json["c1"]["tls_key"] == KEYS.key
    assert own.json["c2"]["tls_key"] is None
    assert [record["tls_key"] for record in everybodys.json.values()] == [None] * 3


async def test_a_list_shows_active_clusters_of_ones_own_only(api):
    api.backend.add(a_cluster("c1").build())
    api.backend.add(a_cluster("c2").running().build())
    api.backend.add(a_cluster("c3").stopped().build())
    api.backend.add(a_cluster("c4").of("bob").build())

    answer = await api.get("/api/v1/clusters/", user="alice")

    assert list(answer.json) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("status=stopped", ["c3"]),
        ("status=STOPPED,pending", ["c1", "c3"]),
        ("status=stopped&status=Pending", ["c1", "c3"]),
        ("status=failed", []),
    ],
)
async def test_a_list_can_be_asked_for_statuses(api, query, want):
    api.backend.add(a_cluster("c1").build())
    api.backend.add(a_cluster("c3").stopped().build())

    answer = await api.get(f"/api/v1/clusters/?{query}", user="alice")

    assert list(answer.json) == want


@pytest.mark.parametrize("query", ["status=", "status=nope", "status=running,"])
async def test_a_status_that_does_not_exist_is_refused(api, query):
    answer = await api.get(f"/api/v1/clusters/?{query}", user="alice")

    assert answer.status == 422
    assert "is not a valid ClusterStatus" in answer.json["error"]


async def test_admins_list_the_clusters_of_others_and_nobody_else_does(api):
    api.backend.add(a_cluster("c1").build())
    api.backend.add(a_cluster("c2").of("bob").build())

    bobs = await api.get("/api/v1/clusters/?owner=bob", user="root")
    all_of_them = await api.get("/api/v1/clusters/?owner=*", user="root")
    refused = await api.get("/api/v1/clusters/?owner=bob", user="alice")
    own = await api.get("/api/v1/clusters/?owner=alice", user="alice")

    assert list(bobs.json) == ["c2"]
    assert list(all_of_them.json) == ["c1", "c2"]
    assert refused.status == 403
    assert list(own.json) == ["c1"]


async def test_a_list_follows_changes_although_its_records_are_kept(api):
    api.backend.add(a_cluster().build())
    before = await api.get("/api/v1/clusters/", user="alice")
    await api.backend.run("c1")

    after = await api.get("/api/v1/clusters/", user="alice")

    assert before.json["c1"]["status"] == "PENDING"
    assert after.json["c1"]["status"] == "RUNNING"


async def test_a_list_gives_each_viewer_a_link_of_their_own(api):
    api.backend.add(a_cluster().running().build())

    own = await api.get("/api/v1/clusters/", user="alice")
    admins = await api.get("/api/v1/clusters/?owner=alice", user="root")

    assert own.json["c1"]["dashboard_route"] != admins.json["c1"]["dashboard_route"]


@pytest.mark.parametrize(
    "body", ["{}", '{"cluster_options": null}', '{"cluster_options": []}', '{"x": 1}']
)
async def test_no_options_are_the_defaults(api, body):
    answer = await api.post("/api/v1/clusters/", user="alice", data=body)

    assert answer.status == 201
    assert list(answer.json) == ["name"]
    assert api.backend.entries[answer.json["name"]].cluster.owner == "alice"


async def test_w5_a_cluster_is_found_scaled_and_stopped_right_after_its_creation(api):
    created = await api.post("/api/v1/clusters/", user="alice", json={})
    path = f"/api/v1/clusters/{created.json['name']}"

    shown = await api.get(path, user="alice")
    scaled = await api.post(f"{path}/scale", user="alice", json={"count": 2})
    stopped = await api.delete(path, user="alice")
    gone = await api.get(path, user="alice")

    assert [shown.status, scaled.status, stopped.status] == [200, 200, 204]
    assert gone.json["status"] == "STOPPED"


async def test_refused_options_are_told_with_all_their_lines(api):
    def refuse(_options, user):
        raise ValueError(f"not for {user.name}\nask an admin")

    api.backend.options = Options(Integer("cores", 1), handler=refuse)
    answer = await api.post("/api/v1/clusters/", user="alice", json={})

    assert answer.status == 422
    assert answer.json["error"] == "not for alice\nask an admin"
    assert answer.json["code"] == "refused_options"


async def test_w20_a_bug_in_an_options_handler_is_a_500_without_its_stack(api):
    def break_down(options):
        return {"cores": options["no such key"]}

    api.backend.options = Options(handler=break_down)
    answer = await api.post("/api/v1/clusters/", user="alice", json={})

    assert answer.status == 500
    assert "no such key" not in answer.text
    assert answer.json["request_id"] == answer.headers["X-Request-ID"]


@pytest.mark.parametrize("options", [[1], "x", 3, True])
async def test_options_that_are_no_mapping_are_refused(api, options):
    answer = await api.post(
        "/api/v1/clusters/", user="alice", json={"cluster_options": options}
    )

    assert answer.status == 422
    assert answer.json["error"].startswith("options must be a dict, got ")


async def test_anothers_cluster_looks_like_one_that_does_not_exist(api):
    api.backend.add(a_cluster("c1").of("bob").running().build())

    foreign = await api.get("/api/v1/clusters/c1", user="alice")
    del api.backend.entries["c1"]
    absent = await api.get("/api/v1/clusters/c1", user="alice")

    assert foreign.status == absent.status == 404
    assert foreign.json["error"] == absent.json["error"] == "Cluster c1 not found"
    assert foreign.json["code"] == absent.json["code"]


async def test_stopping_anothers_or_no_cluster_does_nothing_and_says_nothing(api):
    api.backend.add(a_cluster("c1").of("bob").running().build())

    answers = [
        await api.delete("/api/v1/clusters/c1", user="alice"),
        await api.delete("/api/v1/clusters/absent", user="alice"),
        await api.delete("/api/v1/clusters/No.Such%20Name", user="alice"),
    ]

    assert [(a.status, a.text) for a in answers] == [(204, "")] * 3
    assert "stop_cluster" not in api.backend.calls


@pytest.mark.parametrize(
    ("headers", "user", "want"),
    [
        pytest.param(None, "alice", "StoppedByUser", id="owner"),
        pytest.param(None, "root", "StoppedByAdmin", id="admin"),
        pytest.param("token", None, "StoppedByScheduler", id="scheduler"),
    ],
)
async def test_a_stop_says_who_asked_for_it(api, headers, user, want):
    entry = api.backend.add(a_cluster().running().build())
    sent = {"Authorization": f"token {entry.token}"} if headers else None

    answer = await api.delete("/api/v1/clusters/c1", user=user, headers=sent)

    assert answer.status == 204
    assert entry.cluster.reason == want


async def test_stopping_twice_is_no_error(api):
    api.backend.add(a_cluster().running().build())

    answers = [await api.delete("/api/v1/clusters/c1", user="alice") for _ in range(2)]

    assert [a.status for a in answers] == [204, 204]


class TestWait:
    async def test_it_answers_once_the_cluster_runs(self, api):
        api.backend.add(a_cluster().build())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                api.get("/api/v1/clusters/c1?wait", user="alice")
            )
            await eventually(lambda: "wait_for_change" in api.backend.calls)
            await api.backend.run("c1")

        assert waiting.result().json["status"] == "RUNNING"

    @pytest.mark.parametrize("query", ["", "?wait=0", "?wait=x", "?wait=00"])
    async def test_it_does_not_wait_unless_asked(self, api, query):
        api.backend.add(a_cluster().build())

        answer = await api.get(f"/api/v1/clusters/c1{query}", user="alice")

        assert answer.json["status"] == "PENDING"
        assert "wait_for_change" not in api.backend.calls

    async def test_it_answers_as_it_is_when_the_time_is_over(self):
        async with running_api(wait_s=0.05) as api:
            api.backend.add(a_cluster().build())

            answer = await api.get("/api/v1/clusters/c1?wait", user="alice")

        assert answer.status == 200
        assert answer.json["status"] == "PENDING"

    async def test_a_failed_cluster_is_a_409_with_the_reason_and_its_last_lines(
        self, api
    ):
        api.backend.add(
            a_cluster().failed("StartFailed", "exit status 3", "no", "module").build()
        )

        answer = await api.get("/api/v1/clusters/c1?wait", user="alice")

        assert answer.status == 409
        assert answer.json["error"] == (
            "Cluster c1 failed: StartFailed: exit status 3\n"
            "Last lines of its log:\n  no\n  module"
        )

    async def test_without_wait_a_failed_cluster_is_a_record(self, api):
        api.backend.add(a_cluster().failed("StartFailed", "exit status 3").build())

        answer = await api.get("/api/v1/clusters/c1", user="alice")

        assert answer.status == 200
        assert answer.json["status"] == "FAILED"

    async def test_a_stopped_cluster_is_a_record(self, api):
        api.backend.add(a_cluster().stopped().build())

        answer = await api.get("/api/v1/clusters/c1?wait", user="alice")

        assert answer.status == 200
        assert answer.json["stop_time"] == 2000

    async def test_w27_unknown_and_foreign_names_do_not_wait(self, api):
        api.backend.add(a_cluster("c1").of("bob").build())

        answers = [
            await api.get(f"/api/v1/clusters/{name}?wait", user="alice")
            for name in ("c1", "absent", "No_Name")
        ]

        assert [a.status for a in answers] == [404, 404, 404]
        assert "wait_for_change" not in api.backend.calls

    async def test_w27_without_a_login_nothing_is_even_looked_up(self, api):
        answer = await api.get("/api/v1/clusters/c1?wait")

        assert answer.status == 401
        assert api.backend.calls == []

    async def test_a_store_that_goes_away_for_a_while_is_waited_for(self, api):
        api.backend.add(a_cluster().build())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                api.get("/api/v1/clusters/c1?wait", user="alice")
            )
            await eventually(lambda: "wait_for_change" in api.backend.calls)
            api.backend.is_away = True
            await api.backend.wake()
            seen = len(api.backend.calls)
            await eventually(lambda: len(api.backend.calls) > seen)
            api.backend.is_away = False
            await api.backend.run("c1")

        assert waiting.result().json["status"] == "RUNNING"

    async def test_a_store_that_stays_away_after_a_read_gives_what_was_read(self):
        async with running_api(wait_s=0.5) as api:
            api.backend.add(a_cluster().build())
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(
                    api.get("/api/v1/clusters/c1?wait", user="alice")
                )
                await eventually(lambda: "wait_for_change" in api.backend.calls)
                api.backend.is_away = True
                await api.backend.wake()

        assert waiting.result().status == 200
        assert waiting.result().json["status"] == "PENDING"

    async def test_a_store_that_never_answered_is_a_500_with_the_reason_not_a_503(self):
        async with running_api(wait_s=0.2) as api:
            api.backend.is_away = True

            answer = await api.get("/api/v1/clusters/c1?wait", user="alice")

        assert answer.status == 500
        assert "store does not answer" in answer.json["error"]

    async def test_a_gateway_that_stops_answers_its_waits_as_they_are(self):
        backend = MemoryBackend()
        async with running_api(backend, wait_s=3600) as api, asyncio.TaskGroup() as g:
            backend.add(a_cluster().build())
            waiting = [
                g.create_task(api.get("/api/v1/clusters/c1?wait", user="alice"))
                for _ in range(5)
            ]
            await eventually(lambda: backend.calls.count("wait_for_change") == 5)
            await api.server.close()

        assert {task.result().status for task in waiting} == {200}
        assert {task.result().json["status"] for task in waiting} == {"PENDING"}


async def test_without_wait_a_store_that_is_away_is_a_503_that_says_when_to_return(
    api,
):
    api.backend.is_away = True

    answer = await api.get("/api/v1/clusters/c1", user="alice")

    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


async def test_head_is_answered_like_get_without_a_body(api):
    api.backend.add(a_cluster().build())

    answer = await api.call("HEAD", "/api/v1/clusters/c1", user="alice")

    assert (answer.status, answer.text) == (200, "")


def test_statuses_of_a_record_are_those_of_the_stock_client():
    assert {s.value for s in PublicStatus} == {
        "PENDING",
        "RUNNING",
        "STOPPING",
        "STOPPED",
        "FAILED",
    }
