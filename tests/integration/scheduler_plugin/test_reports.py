"""What a scheduler's plugin tells the gateway, at both ends of the supported range."""

import pytest

pytestmark = pytest.mark.integration

from tests.support.eventually import eventually


async def test_first_report_names_ports_and_versions(world):
    await world.start()

    first = world.server.reports[0]

    assert (first.protocol, first.seen, first.wait_s) == (1, 0, 0.0)
    assert first.ports.scheduler > 0
    assert first.ports.dashboard > 0
    assert set(first.versions) == {"distributed", "python"}
    assert (first.workers, first.clients, first.unfinished) == ((), 0, 0)
    await world.run("answer = client.scheduler_info()['address']")
