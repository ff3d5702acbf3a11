"""Whom schedulers trust for the API, while the operator's certificate is renewed."""

from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
    a_job,
    credentials_of,
    end,
    make_launcher,
    python,
    view,
)

pytestmark = pytest.mark.integration

SLEEP = python("import time; time.sleep(99)")
FIRST = credentials_of("c1").ca_certificate
SECOND = credentials_of("c2").ca_certificate


async def test_running_schedulers_are_given_the_renewed_certificate(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("backends.local.launcher._TRUST_PERIOD_S", 0.05)
    source = tmp_path / "site.crt"
    source.write_text(FIRST)
    launcher = make_launcher(tmp_path, api_ca_file=source)
    await launcher.setup()
    try:
        await launcher.start(a_job(*SLEEP))
        (pid,) = (await view(launcher, SCHEDULER)).pids
        path = _read_variable(pid, "DASK_GATEWAY_API_CA_FILE")
        assert path.read_text() == FIRST

        source.write_text(SECOND)

        await eventually(lambda: path.read_text() == SECOND)
        # The next gateway finds what was renewed while none ran.
        await launcher.cleanup()
        source.write_text(FIRST)
        launcher = make_launcher(tmp_path, api_ca_file=source)
        await launcher.setup()
        await eventually(lambda: path.read_text() == FIRST)
    finally:
        await end(launcher, SCHEDULER)
        await launcher.cleanup()


def _read_variable(pid: int, name: str) -> Path:
    items = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return Path(dict(item.split("=", 1) for item in items if item)[name])
