"""What a person sees who opens `cluster.dashboard_link` in a browser."""

import re

import aiohttp
import pytest

from tests.support.browser import DRAWN, Page, fresh_page
from tests.support.eventually import eventually
from tests.support.lives import open_session

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LINKS = "Array.from(document.querySelectorAll('a[href]'), (a) => a.href)"
ASK_API = """
fetch("/api/v1/clusters/", {credentials: "include"}).then(
  async (r) => [r.status, r.headers.get("www-authenticate"), await r.text()])
"""


async def test_it_opens_without_a_password_and_shows_live_figures(
    stack, cluster, page: Page, tmp_path
):
    assert await page.go(cluster.dashboard_link) == 200

    home = f"{stack.address}/clusters/{cluster.name}"
    assert await page.url() == f"{home}/status"
    assert (await page.run("document.title")).startswith("Dask")
    still = await eventually(lambda: page.run(DRAWN), within=60)

    await cluster.scale(1)
    async with cluster.get_client(set_as_default=False) as client:
        await client.gather(client.map(lambda number: number**2, range(200)))

        async def has_changed() -> bool:
            return await page.run(DRAWN) not in {"", still}

        await eventually(has_changed, within=60)
    (tmp_path / "status.png").write_bytes(await page.shoot())
    (socket,) = page.frames
    assert socket.startswith(f"{home}/status/ws".replace("http:", "ws:"))
    assert page.frames[socket] > 1


async def test_every_way_on_stays_within_the_clusters_path(stack, cluster, page):
    await cluster.scale(1)
    async with cluster.get_client(set_as_default=False) as client:
        await client.wait_for_workers(1)
        home = f"{stack.address}/clusters/{cluster.name}"
        await page.go(cluster.dashboard_link)
        links = [
            link for link in await page.run(LINKS) if link.startswith("http://127")
        ]
        assert links
        assert all(link.startswith(f"{home}/") for link in links), links
        for link in sorted(set(links)):
            assert await page.go(link) == 200, link
            assert (await page.url()).startswith(f"{home}/"), link
        # Where distributed itself leads to, from each of its roots.
        for path, want in (
            ("", "/status"),
            ("/", "/status"),
            ("/info", "/info/main/workers.html"),
            ("/workers", "/workers"),
        ):
            assert await page.go(f"{home}{path}") == 200, path
            assert await page.url() == f"{home}{want}"
        await page.go(f"{home}/info")
        assert f"{cluster.name}-worker-0" in await page.text()


async def test_the_cookie_is_the_dashboards_alone(stack, cluster, page):
    """It is not sent to the API, and is worth nothing there."""
    await page.go(cluster.dashboard_link)

    (cookie,) = await page.cookies()
    assert cookie["path"] == f"/clusters/{cluster.name}/"
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert not cookie["session"]
    assert await page.run("document.cookie") == ""

    status, challenge, text = await page.run(ASK_API)
    assert (status, challenge) == (401, None)
    assert cluster.name not in text
    calls = [r for r in page.requests.values() if "/api/" in r["url"]]
    assert calls
    assert not any("Cookie" in call["headers"] for call in calls)

    header = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    paths = ["me", "clusters/", f"clusters/{cluster.name}"]
    assert await _ask(stack, paths, header) == [401, 401, 401]
    stolen = {"Cookie": f"daskfleet-session={cookie['value']}"}
    assert await _ask(stack, paths, stolen) == [401, 401, 401]


async def test_without_a_login_a_page_says_what_to_do_and_asks_for_nothing(
    stack, cluster, page
):
    home = f"{stack.address}/clusters/{cluster.name}"
    for path in ("/status", "/", "/info/main/workers.html", "/individual-plots.json"):
        assert await page.go(f"{home}{path}") == 401
        headers = {name.lower() for name in page.answer["headers"]}
        assert "www-authenticate" not in headers
        assert "set-cookie" not in headers
        assert "cluster.dashboard_link" in await page.text()
    assert await page.cookies() == []
    # Nor does a WebSocket of a page of ours get through.
    assert await page.run(
        f"""new Promise((done) => {{
          const socket = new WebSocket("{home.replace("http", "ws")}/status/ws");
          socket.onopen = () => done("open"); socket.onerror = () => done("refused");
        }})"""
    ) == ("refused")


async def test_another_users_link_and_cookie_open_their_own_cluster_only(
    stack, cluster, page
):
    async with (
        open_session(stack, "bob") as session,
        await session.new_cluster() as other,
    ):
        assert await page.go(other.dashboard_link) == 200
        home = f"{stack.address}/clusters/{cluster.name}"
        assert await page.go(f"{home}/status") == 401
        token = _token(other.dashboard_link)
        assert await page.go(f"{home}/login/{token}/status") == 401
        assert [c["path"] for c in await page.cookies()] == [f"/clusters/{other.name}/"]
        # Nor does a cookie that is given another name's path by hand.
        (cookie,) = await page.cookies()
        await page.call(
            "Network.setCookie",
            name=cookie["name"],
            value=cookie["value"],
            url=f"{home}/status",
            path=f"/clusters/{cluster.name}/",
        )
        assert await page.go(f"{home}/status") == 401
        assert "cluster.dashboard_link" in await page.text()


async def test_a_link_that_was_tampered_with_is_refused(cluster, page):
    link = cluster.dashboard_link
    token = _token(link)
    for at in (0, len(token) // 2, len(token) - 2):
        other = "A" if token[at] != "A" else "B"
        forged = link.replace(token, token[:at] + other + token[at + 1 :])
        assert await page.go(forged) == 401
        assert "cluster.dashboard_link" in await page.text()
    assert await page.go(link.replace(f"/{token}/", "/x/")) == 401
    assert await page.cookies() == []


async def test_after_the_stop_the_page_says_so(stack, cluster, page, devtools):
    link = cluster.dashboard_link
    await page.go(link)
    async with open_session(stack) as session:
        await session.stop_cluster(cluster.name)
    await eventually(lambda: not stack.jobs(), within=60)

    home = f"{stack.address}/clusters/{cluster.name}"
    for address in (link, f"{home}/status", f"{home}/"):
        assert await page.go(address) == 404
        assert "has stopped" in await page.text()
    async with fresh_page(devtools) as stranger:
        assert await stranger.go(link) == 404
        assert "has stopped" in await stranger.text()


async def test_a_page_of_the_dashboard_cannot_act_in_its_owners_name(cluster, page):
    """Its origin is the API's, and a tenant's program writes its pages."""
    await page.go(cluster.dashboard_link)
    for method, path in (
        ("POST", "/api/v1/clusters/"),
        ("DELETE", f"/api/v1/clusters/{cluster.name}"),
        ("POST", f"/api/v1/clusters/{cluster.name}/scale"),
    ):
        status = await page.run(
            f"""fetch("{path}", {{method: "{method}", body: '{{"count": 9}}',
            credentials: "include"}}).then((r) => r.status)"""
        )
        assert status == 401, path
    # Even a page that guesses the password gets no session from it.
    await page.run(
        """fetch("/api/v1/me", {headers: {Authorization: "Basic " +
        btoa("alice:let-me-in")}, credentials: "include"}).then((r) => r.status)"""
    )
    assert {c["path"] for c in await page.cookies()} == {f"/clusters/{cluster.name}/"}


def _token(link: str) -> str:
    found = re.search(r"/login/([^/]+)/status$", link)
    assert found
    return found[1]


async def _ask(stack, paths: list[str], headers: dict[str, str]) -> list[int]:
    async with aiohttp.ClientSession(headers=headers) as http:
        got = []
        for path in paths:
            async with http.get(f"{stack.address}/api/v1/{path}") as answer:
                got.append(answer.status)
        return got
