import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.names import is_cluster_name
from gateway.http.links import COOKIE_MAX_AGE_S
from gateway.http.targets import parse_target
from tests.support.api import running_api
from tests.support.builders import a_cluster, basic

DOOR = "/api/v1/dashboard-auth"
COOKIE = "daskfleet-dashboard"


async def knock(api, uri, *, host="gw.example", method="GET", **headers):
    """Ask the door as the proxy does."""
    sent = {
        "X-Forwarded-Uri": uri,
        "X-Forwarded-Host": host,
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Method": method,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return await api.get(DOOR, headers=sent)


async def find_link(api, name="c1", user="alice"):
    shown = await api.get(f"/api/v1/clusters/{name}", user=user)
    return shown.json["dashboard_route"]


async def open_link(api, **kwargs):
    answer = await knock(api, await find_link(api, **kwargs))
    return f"{COOKIE}={answer.cookies[COOKIE].value}"


@pytest.fixture(autouse=True)
def _a_running_cluster(api):
    api.backend.add(a_cluster().running().build())


async def test_a_link_becomes_a_cookie_and_leads_to_the_dashboard(api):
    answer = await knock(api, await find_link(api))

    assert answer.status == 303
    assert answer.headers["Location"] == "/clusters/c1/status"
    cookie = answer.cookies[COOKIE]
    assert cookie["path"] == "/clusters/c1/"
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_under_tls_and_a_prefix_link_and_cookie_say_so():
    async with running_api(secure_cookies=True, prefix="/svc") as api:
        api.backend.add(a_cluster().running().build())
        link = await find_link(api)
        answer = await knock(api, f"/svc{link}")
        without = await knock(api, link)

    assert answer.headers["Location"] == "/svc/clusters/c1/status"
    assert answer.cookies[COOKIE]["path"] == "/svc/clusters/c1/"
    assert answer.cookies[COOKIE]["secure"]
    assert without.status == 404


async def test_w30_without_link_cookie_or_credentials_there_is_a_page_and_no_challenge(
    api,
):
    answer = await knock(api, "/clusters/c1/status")

    assert answer.status == 401
    assert "WWW-Authenticate" not in answer.headers
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "cluster.dashboard_link" in answer.text


async def test_the_bare_path_leads_to_where_a_browser_sends_the_cookie(api):
    """Its path ends with a slash, so that no other cluster's path begins with it."""
    answer = await knock(api, "/clusters/c1")
    logged_in = await knock(api, "/clusters/c1", **basic("alice"))

    assert answer.status == 303
    assert answer.headers["Location"] == "/clusters/c1/"
    assert logged_in.status == 200


async def test_a_cookie_opens_every_path_of_its_own_cluster(api):
    api.backend.add(a_cluster("c2").running().build())
    cookie = await open_link(api)

    own = await knock(api, "/clusters/c1/info/main/workers.html?a=b", Cookie=cookie)
    other = await knock(api, "/clusters/c2/status", Cookie=cookie)

    assert (own.status, own.text) == (200, "")
    assert other.status == 401


async def test_a_dashboard_cookie_is_worthless_at_the_api_and_the_reverse(api):
    cookie = await open_link(api)
    value = cookie.partition("=")[2]
    session = (await api.get("/api/v1/me", user="alice")).cookies["daskfleet-session"]

    at_api = await api.get(
        "/api/v1/me", headers={"Cookie": f"daskfleet-session={value}; {cookie}"}
    )
    at_door = await knock(
        api,
        "/clusters/c1/status",
        Cookie=f"{COOKIE}={session.value}; daskfleet-session={session.value}",
    )

    assert (at_api.status, at_door.status) == (401, 401)


@pytest.mark.parametrize(
    ("user", "want"), [("alice", 200), ("root", 200), ("bob", 404)]
)
async def test_credentials_that_a_program_sends_unasked_are_taken(api, user, want):
    answer = await knock(api, "/clusters/c1/status", **basic(user))

    assert answer.status == want
    assert "Set-Cookie" not in answer.headers


async def test_wrong_credentials_get_the_page_without_a_challenge(api):
    answer = await knock(api, "/clusters/c1/status", Authorization="Basic %%%")

    assert answer.status == 401
    assert "WWW-Authenticate" not in answer.headers


async def test_an_admins_link_is_the_admins_own(api):
    cookie = await open_link(api, user="root")

    answer = await knock(api, "/clusters/c1/status", Cookie=cookie)

    assert answer.status == 200


async def test_a_link_ends_and_is_equal_for_hours(api):
    link = await find_link(api)
    api.clock.advance(3 * 3600)
    assert await find_link(api) == link
    api.clock.advance(15 * 3600 - 1)
    young = await knock(api, link)
    api.clock.advance(6 * 3600 + 1)
    old = await knock(api, link)

    assert (young.status, old.status) == (303, 401)


async def test_an_old_link_still_leads_who_holds_a_cookie(api):
    link = await find_link(api)
    api.clock.advance(23 * 3600)
    cookie = await open_link(api)
    api.clock.advance(2 * 3600)

    answer = await knock(api, link, Cookie=cookie)

    assert answer.status == 303
    assert "Set-Cookie" not in answer.headers


async def test_a_cookie_ends_and_is_renewed_past_half_of_its_life(api):
    cookie = await open_link(api)
    api.clock.advance(COOKIE_MAX_AGE_S / 2 + 1)
    page = await knock(
        api, "/clusters/c1/status?x=1", Cookie=cookie, Sec_Fetch_Dest="document"
    )
    asset = await knock(api, "/clusters/c1/assets/a.js", Cookie=cookie)
    api.clock.advance(COOKIE_MAX_AGE_S / 2)
    old = await knock(api, "/clusters/c1/status", Cookie=cookie)
    fresh = f"{COOKIE}={page.cookies[COOKIE].value}"
    new = await knock(api, "/clusters/c1/status", Cookie=fresh)

    assert (page.status, page.headers["Location"]) == (303, "/clusters/c1/status?x=1")
    assert asset.status == 200
    assert COOKIE in asset.cookies
    assert (old.status, new.status) == (401, 200)


async def test_a_stopped_cluster_has_no_dashboard(api):
    link = await find_link(api)
    cookie = await open_link(api)
    await api.delete("/api/v1/clusters/c1", user="alice")

    answers = [
        await knock(api, link),
        await knock(api, "/clusters/c1/status", Cookie=cookie),
        await knock(api, "/clusters/c1/status", **basic("alice")),
    ]

    assert [a.status for a in answers] == [404, 404, 404]


async def test_a_foreign_an_absent_and_a_stopped_cluster_look_alike(api):
    api.backend.add(a_cluster("c2").of("bob").running().build())
    api.backend.add(a_cluster("c3").stopped().build())

    pages = {
        (await knock(api, f"/clusters/{name}/status", **basic("alice"))).text
        for name in ("c2", "c3", "absent")
    }

    assert len(pages) == 1


async def test_a_cookie_that_another_page_planted_does_not_hide_the_right_one(api):
    cookie = await open_link(api)

    answer = await knock(
        api, "/clusters/c1/status", Cookie=f"{COOKIE}=planted; {cookie}"
    )

    assert answer.status == 200


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ({"Origin": "http://gw.example"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://gw.example:81"}, 403),
        ({"Origin": "null", "method": "POST"}, 403),
        ({}, 200),
    ],
)
async def test_other_sites_open_no_websocket_and_change_nothing(api, headers, want):
    cookie = await open_link(api)

    answer = await knock(api, "/clusters/c1/status/ws", Cookie=cookie, **headers)

    assert answer.status == want


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "status",
        "//evil.example/clusters/c1/status",
        "/clusters//evil.example",
        "/clusters/c1//evil.example",
        "/clusters/c1/../c2/status",
        "/clusters/c1/%2e%2e/c2/status",
        "/clusters/c1/..%2fc2/status",
        "/clusters/c1/..\\c2/status",
        "/clusters/%63%31/status",
        "/clusters/C1/status",
        "/clusters/c1\t/status",
        "/clusters/%63%31%0a/status",
        "/clusters/",
        "/api/v1/me",
        "http://evil.example/clusters/c1/status",
        "/x/clusters/c1/status",
        "/clusters/c1.evil.example/status",
    ],
)
async def test_crafted_paths_get_nothing(api, uri):
    cookie = await open_link(api)

    answer = await knock(api, uri, Cookie=cookie, **basic("alice"))

    assert answer.status == 404
    assert "Location" not in answer.headers


@pytest.mark.parametrize(
    "uri",
    [
        "/clusters/c1/login/x.y/status",
        "/clusters/c1/login//status",
        "/clusters/c1/login/x",
        "/clusters/c1/login/x/y/z",
    ],
)
async def test_a_made_up_link_leads_nowhere(api, uri):
    answer = await knock(api, uri)

    assert answer.status in {401, 404}
    assert "Location" not in answer.headers


async def test_a_link_does_not_open_another_cluster(api):
    api.backend.add(a_cluster("c2").running().build())

    answer = await knock(api, (await find_link(api)).replace("/c1/", "/c2/"))

    assert answer.status == 401


@given(uri=st.text(max_size=80) | st.from_regex(r"/clusters/[^/]*/.*", fullmatch=True))
def test_whatever_the_path_the_name_in_it_is_plain(uri):
    target = parse_target(uri, "")

    if target is not None:
        assert is_cluster_name(target.cluster)
        assert f"/clusters/{target.cluster}" in uri
        assert ".." not in uri.partition("?")[0].split("/")


class TestWithoutARoute:
    @pytest.mark.parametrize(
        "path", ["/clusters/c1", "/clusters/c1/status", "/clusters/"]
    )
    async def test_the_api_tells_that_there_is_no_dashboard(self, api, path):
        answer = await api.get(path)

        assert answer.status == 404

    async def test_links_lead_to_the_dashboards_own_host(self):
        async with running_api(dashboard_host="dash.example", prefix="/p") as api:
            api.backend.add(a_cluster().running().build())
            link = await find_link(api)
            headers = {
                "X-Forwarded-Proto": "https",
                "X-Forwarded-Host": "gw.example:8443",
            }
            answer = await api.get(link, headers=headers)
            headers["X-Forwarded-Host"] = "gw.example"
            usual = await api.get(link, headers=headers)
            headers["X-Forwarded-Host"] = "gw.example:none"
            odd = await api.get(link, headers=headers)
            made_up = await api.get("/clusters/c1/login/x.y/status", headers=headers)
            plain = await api.get("/clusters/c1/status", headers=headers)

        assert answer.status == 303
        assert answer.headers["Location"] == f"https://dash.example:8443/p{link}"
        for other in (usual, odd):
            assert other.headers["Location"] == f"https://dash.example/p{link}"
        assert "Set-Cookie" not in answer.headers
        assert (made_up.status, plain.status) == (401, 404)
