"""A real browser on the dashboard, behind the login."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.eventually import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def browser(tmp_path: Path) -> list[str]:
    """The command of a browser that knows nothing and reaches only this machine."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no chromium; to get it: apt-get install chromium")
    return [
        found,
        "--headless=new",
        "--no-sandbox",  # it refuses to run as root otherwise
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        "--virtual-time-budget=20000",
        "--timeout=60000",
        "--dump-dom",
    ]


class Shown(NamedTuple):
    """A page once its scripts have run, and what they wrote to the console."""

    html: str
    console: str


async def show(browser: list[str], url: str) -> Shown:
    process = await asyncio.create_subprocess_exec(
        *browser,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    html, log = await asyncio.wait_for(process.communicate(), 120)
    return Shown(html.decode(errors="replace"), log.decode(errors="replace"))


async def test_the_clients_link_opens_the_dashboard_without_a_password(
    gateway, browser
):
    async with await gateway.new_cluster() as cluster:

        async def is_alive() -> bool:
            page = await show(browser, cluster.dashboard_link)
            assert "<title>Dask" in page.html
            # What is drawn comes over a WebSocket, which the proxy guards as well.
            return "Websocket connection 0 is now open" in page.console

        assert await eventually(is_alive, within=180)


async def test_without_the_link_a_browser_is_told_how_to_get_one(gateway, browser):
    async with await gateway.new_cluster() as cluster:
        bare = re.sub(r"/login/[^/]+/", "/", cluster.dashboard_link)

        page = await show(browser, bare)

    assert bare != cluster.dashboard_link
    assert "cluster.dashboard_link" in page.html
    assert "<title>Dask" not in page.html
