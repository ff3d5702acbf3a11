"""Drive a headless Chromium by its DevTools protocol, over aiohttp alone.

One process serves many tests; each page has a browser context of its own, which is
what a fresh profile is: no cookies, no cache, nothing typed before.
"""

import base64
import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.support.eventually import eventually

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it refuses to run as root otherwise
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=1280,900",
)
# Hosts that are only names: the browser reaches this machine and nothing else.
RESOLVER = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

# All that is drawn, in shadow roots too, as one text that changes with any pixel.
DRAWN = """
(() => {
  const found = [];
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.tagName === "CANVAS" && node.width) found.push(node.toDataURL());
      if (node.shadowRoot) visit(node.shadowRoot);
    }
  };
  visit(document);
  return found.length ? found.join() : "";
})()
"""


@contextmanager
def running_browser(profile: Path) -> Iterator[str]:
    """Run a browser; yield the address of its DevTools."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no chromium; to get it: apt-get install chromium")
    log = profile / "chromium.log"
    profile.mkdir(parents=True)
    command = (
        found,
        *FLAGS,
        f"--host-resolver-rules={RESOLVER}",
        f"--user-data-dir={profile / 'profile'}",
        "about:blank",
    )
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield _wait_for_address(log, process)
    finally:
        # Its helpers end a moment after it.
        helpers = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(30)
        for helper in psutil.wait_procs(helpers, timeout=10)[1]:
            helper.kill()


class Page:
    """One tab in a context of its own.

    Attributes
    ----------
    requests
        Each request that went out, as DevTools tells it, with ``headers`` as they
        were sent, ``Cookie`` included.
    frames
        How many WebSocket frames have come in, by URL.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._session = ""
        self._documents: list[dict[str, Any]] = []
        self._urls: dict[str, str] = {}
        self.requests: dict[str, dict[str, Any]] = {}
        self.frames: dict[str, int] = {}

    async def open(self) -> None:
        """Make the context and the tab."""
        context = await self.call("Target.createBrowserContext")
        target = await self.call(
            "Target.createTarget",
            url="about:blank",
            browserContextId=context["browserContextId"],
        )
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            await self.call(f"{domain}.enable")

    async def trust_any_certificate(self) -> None:
        """Go on where a person would have to click a warning away."""
        await self.call("Security.setIgnoreCertificateErrors", ignore=True)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of DevTools and return its result."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while number not in self._answers:
            await self._take()
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def go(self, url: str) -> int:
        """Load a page as if its address had been typed; return the last status."""
        self._documents.clear()
        done = await self.call("Page.navigate", url=url)
        assert "errorText" not in done, (url, done["errorText"])
        await eventually(self._is_loaded, within=60)
        return int(self._documents[-1]["status"])

    @property
    def answer(self) -> dict[str, Any]:
        """The response that the document came with."""
        return self._documents[-1]

    async def run(self, script: str) -> Any:
        """Return what JavaScript ``script`` (an expression, or a promise) gives."""
        got = await self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    async def url(self) -> str:
        """Return the address that is shown."""
        return str(await self.run("location.href"))

    async def text(self) -> str:
        """Return what a person reads."""
        return str(await self.run("document.body.innerText"))

    async def cookies(self) -> list[dict[str, Any]]:
        """Return all cookies of the context, those of other paths too."""
        return list((await self.call("Network.getAllCookies"))["cookies"])

    async def listen(self) -> None:
        """Take in what the browser has told meanwhile."""
        await self.run("0")

    async def shoot(self) -> bytes:
        """Return a picture of the page, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])

    async def _is_loaded(self) -> bool:
        return bool(self._documents) and (
            await self.run("document.readyState") == "complete"
        )

    async def _take(self) -> None:
        message = json.loads((await self._socket.receive(60)).data)
        if "id" in message:
            self._answers[message["id"]] = message
        else:
            self._note(message["method"], message["params"])

    def _note(self, method: str, event: dict[str, Any]) -> None:
        number = event.get("requestId", "")
        match method:
            case "Network.requestWillBeSent":
                self.requests.setdefault(number, {})["url"] = event["request"]["url"]
            case "Network.requestWillBeSentExtraInfo":
                self.requests.setdefault(number, {})["headers"] = event["headers"]
            case "Network.responseReceived" if event["type"] == "Document":
                self._documents.append(event["response"])
            case "Network.webSocketCreated":
                self._urls[number] = event["url"]
            case "Network.webSocketFrameReceived":
                url = self._urls.get(number, "")
                self.frames[url] = self.frames.get(url, 0) + 1


@asynccontextmanager
async def fresh_page(devtools: str) -> AsyncIterator[Page]:
    """Yield a page of a browser that has never been anywhere."""
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(devtools, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        await page.open()
        yield page


def _wait_for_address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        text = log.read_text(errors="replace")
        if found := re.search(r"DevTools listening on (ws://\S+)", text):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"no browser:\n{log.read_text(errors='replace')[-2000:]}")
