from types import SimpleNamespace

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gateway.auth import Authenticator, SimpleAuthenticator, unauthorized
from gateway.domain.errors import Unauthenticated
from gateway.domain.user import User
from tests.support.api import running_api
from tests.support.builders import a_cluster, basic

LIST = "/api/v1/clusters/"
COOKIE = "daskfleet-session"


async def log_in(api, user="alice", **kwargs) -> dict[str, str]:
    answer = await api.get(LIST, user=user, **kwargs)
    return {"Cookie": f"{COOKIE}={answer.cookies[COOKIE].value}"}


class Tokens(Authenticator):
    """As sites write them: their own scheme, context, and the peer's exception."""

    async def authenticate(self, request):
        if request.headers.get("Authorization") != "Site alice":
            raise unauthorized("Site")
        return User("alice"), "mutual"

    async def pre_response(self, _request, response, context=None):
        response.headers["X-Site"] = context


class Fixed(Authenticator):
    """Answers whatever it was made with."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    async def authenticate(self, _request):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


async def test_without_a_login_the_basic_challenge_is_sent(api):
    answer = await api.get(LIST)

    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
    assert answer.json["code"] == "unauthenticated"
    assert answer.json["error"] == "Authentication required"


async def test_w30_the_session_cookie_is_for_the_api_and_no_script(api):
    answer = await api.get(LIST, user="alice")

    cookie = answer.cookies[COOKIE]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["path"] == "/api/"
    assert cookie["max-age"] == "300"
    assert not cookie["secure"]


async def test_under_tls_and_a_prefix_the_cookie_says_so():
    async with running_api(secure_cookies=True, prefix="/services/dask") as api:
        answer = await api.get(LIST, user="alice")

    assert answer.cookies[COOKIE]["secure"]
    assert answer.cookies[COOKIE]["path"] == "/services/dask/api/"


async def test_a_session_is_enough_on_every_replica_and_starts_no_new_one(api):
    async with running_api() as other:
        cookie = await log_in(api)
        answer = await other.get(LIST, headers=cookie)

    assert answer.status == 200
    assert COOKIE not in answer.cookies


async def test_w36_an_old_session_asks_for_credentials_again(api):
    cookie = await log_in(api)
    api.clock.advance(299)
    young = await api.get(LIST, headers=cookie)
    api.clock.advance(1)
    old = await api.get(LIST, headers=cookie)

    assert (young.status, old.status) == (200, 401)


async def test_credentials_come_before_a_session(api):
    cookie = await log_in(api, "alice")

    answer = await api.get("/api/v1/me", user="bob", headers=cookie)

    assert answer.json["name"] == "bob"


@pytest.mark.parametrize("value", ["", "x", "x.y", "é", '"', "a" * 5000])
async def test_a_made_up_session_is_none(api, value):
    answer = await api.get(
        LIST, headers={"Cookie": f"{COOKIE}={value}".encode().decode("latin-1")}
    )

    assert answer.status == 401


class TestOtherSites:
    @pytest.mark.parametrize(
        ("headers", "want"),
        [
            pytest.param({}, 201, id="a program"),
            pytest.param({"Sec-Fetch-Site": "same-origin"}, 201, id="same origin"),
            pytest.param({"Sec-Fetch-Site": "none"}, 201, id="typed"),
            pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="same site"),
            pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="cross site"),
            pytest.param({"Origin": "https://evil.example"}, 403, id="other origin"),
            pytest.param({"Origin": "null"}, 403, id="null"),
            pytest.param({"Origin": "http://[::1"}, 403, id="malformed"),
            pytest.param({"Origin": "http://127.0.0.1:x"}, 403, id="bad port"),
            pytest.param(
                {"Origin": "https://hub.example", "Sec-Fetch-Site": "cross-site"},
                201,
                id="trusted",
            ),
            pytest.param(
                {
                    "Origin": "https://gw.example",
                    "X-Forwarded-Host": "gw.example",
                    "X-Forwarded-Proto": "https",
                },
                201,
                id="behind the proxy",
            ),
        ],
    )
    async def test_w30_changes_by_a_session_need_the_same_origin(self, headers, want):
        trusted = frozenset({"https://hub.example"})
        async with running_api(trusted_origins=trusted) as api:
            cookie = await log_in(api)
            answer = await api.post(LIST, headers={**cookie, **headers}, json={})
            created = len(api.backend.entries)

        assert answer.status == want
        assert created == (want == 201)

    async def test_own_origin_is_recognised_by_host_and_port(self, api):
        cookie = await log_in(api)

        own = await api.post(LIST, headers={**cookie, "Origin": api.url}, json={})
        near = await api.post(
            LIST, headers={**cookie, "Origin": "http://127.0.0.1:1"}, json={}
        )

        assert (own.status, near.status) == (201, 403)

    async def test_reading_needs_no_same_origin(self, api):
        cookie = await log_in(api)

        answer = await api.get(LIST, headers={**cookie, "Sec-Fetch-Site": "cross-site"})

        assert answer.status == 200

    async def test_credentials_in_the_request_need_no_same_origin(self, api):
        answer = await api.post(
            LIST, user="alice", headers={"Origin": "https://evil.example"}, json={}
        )

        assert answer.status == 201


class TestBrowsers:
    @pytest.mark.parametrize(
        "headers", [{"Sec-Fetch-Mode": "cors"}, {"User-Agent": "Mozilla/5.0 (X11)"}]
    )
    async def test_a_browser_is_neither_challenged_nor_given_a_session(
        self, api, headers
    ):
        refused = await api.get(LIST, headers=headers)
        accepted = await api.get(LIST, user="alice", headers=headers)

        assert refused.status == 401
        assert "WWW-Authenticate" not in refused.headers
        assert accepted.status == 200
        assert "Set-Cookie" not in accepted.headers

    async def test_with_dashboards_on_a_host_of_their_own_it_is(self):
        async with running_api(dashboard_host="dash.example") as api:
            headers = {"Sec-Fetch-Mode": "cors"}
            refused = await api.get(LIST, headers=headers)
            accepted = await api.get(LIST, user="alice", headers=headers)

        assert "WWW-Authenticate" in refused.headers
        assert COOKIE in accepted.cookies


class TestSitesOwnAuthenticators:
    async def test_their_exception_is_told_in_our_form_with_their_challenge(self):
        async with running_api(authenticator=Tokens()) as api:
            answer = await api.get(LIST)

        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Site"
        assert answer.json["error"] == "Authentication required"

    async def test_w21_responses_are_changed_and_sessions_begun_on_errors_too(self):
        async with running_api(authenticator=Tokens()) as api:
            answers = [
                await api.get(path, headers={"Authorization": "Site alice"})
                for path in (LIST, "/api/v1/clusters/absent", f"{LIST}?status=x")
            ]

        assert [a.status for a in answers] == [200, 404, 422]
        assert [a.headers["X-Site"] for a in answers] == ["mutual"] * 3
        assert all(COOKIE in a.cookies for a in answers)

    @pytest.mark.parametrize(
        "found",
        [
            User(""),
            User(" alice"),
            User("al\nice"),
            SimpleNamespace(name=""),
        ],
    )
    async def test_they_cannot_name_nobody(self, found):
        async with running_api(authenticator=Fixed(found)) as api:
            answer = await api.get(LIST)

        assert answer.status == 401

    async def test_their_own_user_class_is_taken(self):
        user = SimpleNamespace(name="alice", groups=["lab"], admin=True)
        async with running_api(authenticator=Fixed(user)) as api:
            answer = await api.get("/api/v1/me")

        assert answer.json["groups"] == ["lab"]
        assert answer.json["admin"] is True

    @pytest.mark.parametrize(
        ("error", "want"),
        [
            (Unauthenticated("no"), 401),
            (web.HTTPForbidden(reason="not you"), 403),
            (web.HTTPFound("https://login.example"), 302),
            (web.HTTPBadGateway(reason="the hub is away"), 502),
            (KeyError("a bug with a detail"), 500),
        ],
    )
    async def test_whatever_they_raise_is_answered(self, error, want):
        async with running_api(authenticator=Fixed(error)) as api:
            answer = await api.get(LIST)

        assert answer.status == want
        assert "detail" not in answer.text

    async def test_they_may_add_routes(self):
        class WithRoute(SimpleAuthenticator):
            async def setup(self, app):
                app.router.add_get("/login", self.show)

            async def show(self, _request):
                return web.Response(text="welcome")

        async with running_api(authenticator=WithRoute()) as api:
            answer = await api.get("/login")

        assert (answer.status, answer.text) == (200, "welcome")


async def test_no_log_line_of_a_login_shows_a_secret(api):
    api.backend.add(a_cluster().running().build())
    with capture_logs() as logs:
        await api.get(LIST, headers=basic("alice", "my own password"))
        cookie = await log_in(api)
        shown = await api.get("/api/v1/clusters/c1", headers=cookie)

    text = str(logs)
    assert "my own password" not in text
    assert cookie["Cookie"].partition("=")[2] not in text
    assert shown.json["dashboard_route"].split("/")[4] not in text
