"""Dashboards on a host of their own, over HTTPS, below a prefix; links that end."""

import base64
import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.harness.pki import write_serving_files
from tests.support.browser import DRAWN, Page, fresh_page
from tests.support.eventually import eventually
from tests.support.lives import look_up, status_of
from tests.support.stack import PASSWORD, Stack, running_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PREFIX = "/services/dask-gateway"
HOST = "dash.test"
# A link is made anew each quarter of it, and opens for three quarters at least.
LINK_S = 24


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("apart")
    files = write_serving_files(folder, ["127.0.0.1", HOST])
    extra = f"""
c.Proxy.tls_cert = {str(files.certificate)!r}
c.Proxy.tls_key = {str(files.key)!r}
c.Proxy.prefix = {PREFIX!r}
c.Proxy.dashboard_host = {HOST!r}
c.DaskGateway.dashboard_link_max_age = {LINK_S}
"""
    with running_stack(
        folder / "stack", extra, prefix=PREFIX, authority=files.authority
    ) as running:
        yield running


@pytest.fixture
async def cluster(stack: Stack):
    """Yield the name of alice's running cluster, and stop it."""
    name = _call(stack, "POST", "/api/v1/clusters/")["name"]
    await eventually(lambda: status_of(stack, name) == "RUNNING", within=60)
    yield name
    _call(stack, "DELETE", f"/api/v1/clusters/{name}")
    await eventually(lambda: not stack.jobs(), within=60)


async def test_a_link_leads_to_the_dashboards_own_host(stack, cluster, page: Page):
    await page.trust_any_certificate()
    link = stack.address + look_up(stack, cluster)["dashboard_route"]

    assert await page.go(link) == 200

    home = f"https://{HOST}:{stack.port}{PREFIX}/clusters/{cluster}"
    assert await page.url() == f"{home}/status"
    assert await eventually(lambda: page.run(DRAWN), within=60)
    (socket,) = page.frames
    assert socket.startswith(f"wss://{HOST}:{stack.port}{PREFIX}/clusters/{cluster}/")
    (cookie,) = await page.cookies()
    assert (cookie["domain"], cookie["path"]) == (HOST, f"{PREFIX}/clusters/{cluster}/")
    assert (cookie["secure"], cookie["httpOnly"]) == (True, True)
    for path in ("", "/", "/info"):
        assert await page.go(f"{home}{path}") == 200
        assert (await page.url()).startswith(f"{home}/")
    # There is no API on this host, and no dashboard on the other one.
    assert await page.run(f"fetch('{PREFIX}/api/health').then((r) => r.status)") == 404
    assert await page.go(f"{stack.address}/clusters/{cluster}/status") == 404
    assert "no such dashboard" in await page.text()


async def test_an_old_link_says_that_it_has_to_be_asked_for_anew(
    stack, cluster, devtools
):
    link = stack.address + look_up(stack, cluster)["dashboard_route"]
    async with fresh_page(devtools) as early:
        await early.trust_any_certificate()
        assert await early.go(link) == 200
        ends = time.monotonic() + LINK_S + 1
        await eventually(lambda: time.monotonic() > ends, within=60)

        async with fresh_page(devtools) as late:
            await late.trust_any_certificate()
            assert await late.go(link) == 401
            assert "An old link has to be asked for anew" in await late.text()
            assert await late.cookies() == []
            own = link.replace("//127.0.0.1:", f"//{HOST}:")
            assert await late.go(own) == 401
        # Whoever came in time stays, and may even use it as a bookmark.
        assert await early.go(own) == 200


def _call(stack: Stack, method: str, path: str) -> dict:
    token = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"{stack.address}{path}",
        method=method,
        headers={"Authorization": f"Basic {token}"},
        data=b"{}" if method == "POST" else None,
    )
    with urllib.request.urlopen(request, timeout=30, context=stack.trust) as answer:
        text = answer.read()
    return json.loads(text) if text else {}
