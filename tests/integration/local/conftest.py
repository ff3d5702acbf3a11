from collections.abc import AsyncIterator

import pytest

from backends.local.launcher import ProcessLauncher
from tests.support.jobs import end, find_marked, make_launcher


@pytest.fixture
async def launcher(tmp_path) -> AsyncIterator[ProcessLauncher]:
    """Yield a launcher that keeps its files in ``tmp_path``; end what it started."""
    launcher = make_launcher(tmp_path)
    await launcher.setup()
    try:
        yield launcher
    finally:
        await end(launcher, *await launcher.find_jobs())
        await launcher.cleanup()
    assert find_marked(tmp_path) == []
