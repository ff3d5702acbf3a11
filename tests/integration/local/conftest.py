import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from backends.local.launcher import ProcessLauncher
from tests.support.jobs import end, find_marked, make_launcher


@pytest.fixture
def opened() -> Iterator[Path]:
    """Yield a folder that other users can pass through to.

    Not pytest's own, which every run of pytest on the machine closes anew.
    """
    folder = Path(tempfile.mkdtemp(prefix="daskfleet-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


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
