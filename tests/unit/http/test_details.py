import asyncio

import pytest
from aiohttp import ClientPayloadError
from structlog.testing import capture_logs

from gateway.domain.cluster import ClusterEvent, EventType, Worker, WorkerState
from gateway.domain.errors import Unavailable
from gateway.domain.options import Integer, Options
from gateway.domain.policy import Caps, Policy
from tests.support.api import running_api
from tests.support.builders import a_cluster
from tests.support.eventually import eventually
from tests.support.memory_backend import MemoryBackend

LOGS = "/api/v1/clusters/c1/logs"


async def test_events_are_told_oldest_first(api):
    entry = api.backend.add(a_cluster().build())
    entry.events += [
        ClusterEvent(1, EventType.NORMAL, "SchedulerStarted", "started", "scheduler"),
        ClusterEvent(
            2, EventType.WARNING, "Crashed", "exit 1", "worker", "c1-worker-0"
        ),
    ]

    answer = await api.get("/api/v1/clusters/c1/events", user="alice")

    assert [e["reason"] for e in answer.json["events"]] == [
        "SchedulerStarted",
        "Crashed",
    ]
    assert answer.json["events"][1] == {
        "time": 2,
        "type": "Warning",
        "reason": "Crashed",
        "message": "exit 1",
        "component": "worker",
        "worker": "c1-worker-0",
    }


async def test_workers_are_told_with_their_state(api):
    entry = api.backend.add(a_cluster().build())
    entry.workers.append(Worker("c1-worker-0", WorkerState.FAILED, 1, 2, "exit 1"))

    answer = await api.get("/api/v1/clusters/c1/workers", user="alice")

    assert answer.json == {
        "workers": [
            {
                "name": "c1-worker-0",
                "status": "Failed",
                "start_time": 1,
                "stop_time": 2,
                "message": "exit 1",
            }
        ]
    }


@pytest.mark.parametrize("part", ["events", "workers", "logs"])
async def test_details_of_anothers_cluster_are_not_told(api, part):
    api.backend.add(a_cluster().of("bob").build())

    answer = await api.get(f"/api/v1/clusters/c1/{part}", user="alice")

    assert answer.status == 404


async def test_logs_are_lines_of_text(api):
    entry = api.backend.add(a_cluster().build())
    entry.logs = {
        "scheduler": [f"line {i}" for i in range(200)],
        "c1-worker-0": ["naïve \udcff"],
    }

    default = await api.get(LOGS, user="alice")
    tail = await api.get(f"{LOGS}?tail=2", user="alice")
    worker = await api.get(f"{LOGS}?component=worker&worker=c1-worker-0", user="alice")
    empty = await api.get(f"{LOGS}?component=worker", user="alice")

    assert default.text.splitlines()[0] == "line 100"
    assert tail.text == "line 198\nline 199\n"
    assert tail.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert worker.text == "naïve ?\n"
    assert (empty.status, empty.text) == (200, "")


@pytest.mark.parametrize(
    "query",
    [
        "component=../etc",
        "component=",
        "worker=c1-worker-0",
        "component=worker&worker=c2-worker-0",
        "component=worker&worker=../../passwd",
        "tail=-1",
        "tail=x",
        "tail=",
        "tail=10001",
        "tail=²",
        "follow=maybe",
    ],
)
async def test_a_query_that_does_not_fit_is_refused(api, query):
    api.backend.add(a_cluster().build())

    answer = await api.get(f"{LOGS}?{query}", user="alice")

    assert answer.status == 422


async def test_logs_are_followed_until_the_reader_goes(api):
    entry = api.backend.add(a_cluster().build())
    entry.logs["scheduler"] = ["one"]
    async with api.session.get(
        f"{api.url}{LOGS}?follow=true", headers={"Authorization": "Basic YWxpY2U6"}
    ) as response:
        assert await response.content.readline() == b"one\n"
        assert "X-Request-ID" in response.headers
        assert "daskfleet-session" in response.cookies
        entry.logs["scheduler"].append("two")
        await api.backend.wake()
        assert await response.content.readline() == b"two\n"


async def test_a_gateway_that_stops_ends_what_is_followed():
    backend = MemoryBackend()
    async with running_api(backend) as api, asyncio.TaskGroup() as group:
        entry = backend.add(a_cluster().build())
        entry.logs["scheduler"] = ["one"]
        following = group.create_task(api.get(f"{LOGS}?follow", user="alice"))
        await eventually(lambda: "read_logs" in backend.calls)
        await api.server.close()

    assert following.result().text == "one\n"


async def test_head_of_logs_sends_none(api):
    entry = api.backend.add(a_cluster().build())
    entry.logs["scheduler"] = ["one"]

    answer = await api.call("HEAD", LOGS, user="alice")

    assert (answer.status, answer.text) == (200, "")


async def test_options_are_offered_as_a_form(api):
    api.backend.options = Options(Integer("cores", 1, min=1, max=4))

    answer = await api.get("/api/v1/options", user="alice")

    assert answer.json == {"cluster_options": api.backend.options.get_specification()}


async def test_me_tells_who_one_is_and_what_ones_caps_leave():
    backend = MemoryBackend(policy=Policy(default=Caps(clusters=2, cores=8)))
    async with running_api(backend) as api:
        backend.add(a_cluster().running().build())

        answer = await api.get("/api/v1/me", user="alice")

    assert answer.json == {
        "name": "alice",
        "groups": [],
        "admin": False,
        "usage": [
            {
                "share": "user:alice",
                "used": {
                    "clusters": 1,
                    "workers": 0,
                    "cores": 1.0,
                    "memory_bytes": 2**30,
                },
                "caps": {
                    "clusters": 2,
                    "workers": None,
                    "cores": 8,
                    "memory_bytes": None,
                },
            }
        ],
    }


async def test_a_cap_that_is_reached_refuses_the_next_cluster():
    backend = MemoryBackend(policy=Policy(default=Caps(clusters=1)))
    async with running_api(backend) as api:
        first = await api.post("/api/v1/clusters/", user="alice", json={})
        second = await api.post("/api/v1/clusters/", user="alice", json={})

    assert (first.status, second.status) == (201, 422)
    assert second.json["code"] == "limit_exceeded"


class TestOpenRoutes:
    async def test_health_and_version_need_no_login_and_no_store(self, api):
        api.backend.is_away = True

        health = await api.get("/api/health")
        version = await api.get("/api/version")

        assert health.json == {"status": "pass"}
        assert list(version.json) == ["version"]

    async def test_w6_ready_only_once_the_state_is_loaded(self, api):
        before = await api.get("/api/ready")
        api.backend.is_ready = False
        after = await api.get("/api/ready")

        assert before.status == 200
        assert after.status == 503
        assert after.headers["Retry-After"]

    async def test_metrics_count_by_template_and_never_by_what_was_sent(self, api):
        api.backend.add(a_cluster("c-secret-name").running().build())
        await api.get("/api/v1/clusters/c-secret-name?x=secret", user="alice-secret")
        await api.call("PROPFIND", "/api/v1/secret-path", user="alice-secret")

        answer = await api.get("/metrics")

        assert "secret" not in answer.text.lower()
        assert (
            'daskfleet_http_requests_total{method="GET",'
            'route="/api/v1/clusters/{name}",status="404"} 1.0' in answer.text
        )
        assert (
            'daskfleet_http_requests_total{method="other",'
            'route="unknown",status="404"} 1.0' in answer.text
        )
        assert 'daskfleet_clusters{status="RUNNING"} 1.0' in answer.text
        assert "daskfleet_held_calls 0.0" in answer.text

    async def test_metrics_work_without_the_store(self, api):
        api.backend.is_away = True

        answer = await api.get("/metrics")

        assert answer.status == 200


async def test_the_backend_is_set_up_and_cleaned_up_by_the_application():
    backend = MemoryBackend()
    async with running_api(backend):
        assert backend.is_set_up

    assert not backend.is_set_up


async def test_logs_that_break_off_are_not_taken_for_whole(api):
    api.backend.add(a_cluster().build())

    async def break_off(*_args):
        yield "one"
        raise OSError("the node is gone")

    api.backend.read_logs = break_off
    with capture_logs() as logs, pytest.raises(ClientPayloadError):
        await api.get(LOGS, user="alice")

    assert "answer broke off" in [line["event"] for line in logs]


async def test_logs_that_cannot_be_read_at_all_are_an_error(api):
    api.backend.add(a_cluster().build())

    async def fail(*_args):
        raise Unavailable("the node is away")
        yield

    api.backend.read_logs = fail
    answer = await api.get(LOGS, user="alice")

    assert answer.status == 503
