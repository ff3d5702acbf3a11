"""A gateway, a browser, and a cluster to look at."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.browser import Page, fresh_page, running_browser
from tests.support.client_threads import start_client_threads
from tests.support.eventually import eventually
from tests.support.lives import open_session
from tests.support.stack import Stack, running_stack


@pytest.fixture(scope="session", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture(scope="session")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_browser(tmp_path_factory.mktemp("browser") / "chromium") as address:
        yield address


@pytest.fixture
async def page(devtools: str) -> AsyncIterator[Page]:
    async with fresh_page(devtools) as opened:
        yield opened


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("seen")) as running:
        yield running


@pytest.fixture
async def cluster(stack: Stack):
    """Yield alice's running cluster, and stop it."""
    async with open_session(stack) as session:
        found = await session.new_cluster(shutdown_on_close=False)
        yield found
        await session.stop_cluster(found.name)
        await found.close()
    await eventually(lambda: not stack.jobs(), within=60)
