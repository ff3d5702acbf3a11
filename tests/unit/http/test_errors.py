import asyncio
import re

import pytest
from structlog.testing import capture_logs

from gateway.domain.errors import BackendError, InvariantError, Rejected
from gateway.http.replies import encode
from tests.support.builders import a_cluster

LIST = "/api/v1/clusters/"


def raising(error):
    async def fail(*_args, **_kwargs):
        raise error

    return fail


async def test_every_response_has_a_request_id_and_its_log_line_has_it_too(api):
    with capture_logs() as logs:
        answers = [
            await api.get(path, user="alice")
            for path in (LIST, "/api/health", "/nothing", "/api/v1/clusters/absent")
        ]

    ids = [answer.headers["X-Request-ID"] for answer in answers]
    assert len(set(ids)) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", request_id) for request_id in ids)
    lines = [line for line in logs if line["event"] == "request answered"]
    assert [line["status"] for line in lines] == [200, 200, 404, 404]


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("abc-1.2_3", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("", 0)],
)
async def test_a_well_formed_request_id_is_kept(api, given, is_kept):
    answer = await api.get("/api/health", headers={"X-Request-ID": given})

    assert (answer.headers["X-Request-ID"] == given) is bool(is_kept)


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/clusters", 404),
        ("GET", "/", 404),
        ("GET", "//api//health", 404),
        ("PUT", LIST, 405),
        ("POST", "/api/health", 405),
        ("OPTIONS", LIST, 405),
    ],
)
async def test_what_is_not_there_is_told_as_json(api, method, path, want):
    answer = await api.call(method, path, user="alice")

    assert answer.status == want
    assert set(answer.json) == {"error", "code", "request_id"}


async def test_405_says_what_is_allowed(api):
    answer = await api.call("PUT", LIST, user="alice")

    assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    ("error", "want_status", "want_code", "is_told"),
    [
        (Rejected("10 of 20 workers, quota q"), 409, "rejected", True),
        (BackendError("host db.internal said no"), 500, "backend_error", False),
        (InvariantError("two of one"), 500, "internal_error", False),
        (RuntimeError("a detail"), 500, "internal_error", False),
    ],
)
async def test_texts_for_operators_are_kept_from_users(
    api, error, want_status, want_code, is_told
):
    api.backend.list_clusters = raising(error)
    with capture_logs() as logs:
        answer = await api.get(LIST, user="alice")

    assert answer.status == want_status
    assert answer.json["code"] == want_code
    assert (str(error) in answer.text) is is_told
    bugs = [line for line in logs if line["event"] == "request failed"]
    assert [line["exc_info"] for line in bugs] == ([] if is_told else [error])


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
)
async def test_no_code_of_a_site_ends_the_gateway_or_drops_the_connection(api, error):
    api.backend.start_cluster = raising(error)
    with capture_logs() as logs:
        answer = await api.post(LIST, user="alice", json={})

    assert answer.status == 500
    assert answer.json["code"] == "internal_error"
    bugs = [line for line in logs if line["event"] == "request failed"]
    assert [line["exc_info"].__cause__ for line in bugs] == [error]
    assert (await api.get(LIST, user="alice")).status == 200


async def test_responses_are_not_to_be_stored_nor_guessed_at(api):
    answer = await api.get(LIST, user="alice")

    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["a%2Fb", "%ff%fe", "a" * 2000, "%00", "a%20b", "ü"])
async def test_a_name_that_no_cluster_has_is_not_found(api, name):
    api.backend.add(a_cluster("a").build())

    answer = await api.get(f"/api/v1/clusters/{name}", user="alice")

    assert answer.status == 404
    assert "get_cluster" not in api.backend.calls


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"a": "x\0y"}, "NUL"),
        ({"a": {"b\0": 1}}, "NUL"),
        ({"a": [2**63]}, "64 bits"),
        ({"a": eval("[" * 40 + "]" * 40)}, "deep"),  # noqa: S307 - a literal
    ],
)
async def test_options_that_no_store_keeps_are_refused(api, options, want):
    answer = await api.post(LIST, user="alice", json={"cluster_options": options})

    assert answer.status == 422
    assert want in answer.json["error"]
    assert "start_cluster" not in api.backend.calls


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"cluster_options": ' + b"9" * 10_000 + b"}", id="huge"),
        pytest.param(b'"\xff\xfe"', id="not utf-8"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(b'{"cluster_options": {"a": "\\ud800"}}', id="surrogate"),
        pytest.param(b'{"cluster_options": {"a": 1e999}}', id="too large"),
        pytest.param(b"\0", id="nul"),
    ],
)
async def test_w20_a_body_that_is_no_json_is_a_422(api, body):
    answer = await api.post(LIST, user="alice", data=body)

    assert answer.status == 422
    assert answer.json["code"] == "invalid_request"


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=klingon"},
        {"Content-Type": ""},
        {"Content-Type": "multipart/form-data"},
    ],
)
async def test_the_content_type_does_not_matter(api, headers):
    answer = await api.post(LIST, user="alice", headers=headers, data=b"{}")

    assert answer.status == 201


def test_lone_surrogates_are_escaped_wherever_they_stand():
    assert encode({"a\ud800": ["\ud800", 1, None]}) == (
        b'{"a\\\\ud800":["\\\\ud800",1,null]}'
    )
