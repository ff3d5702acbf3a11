"""A set-up that cannot work ends the scheduler and says why."""

import pytest

from tests.support.eventually import eventually
from tests.support.sync_server import TOKEN

from .conftest import PLUGIN

pytestmark = pytest.mark.integration

MISSING = "/nowhere/to/be/found"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param(
            {"DASK_GATEWAY_API_URL": None}, "DASK_GATEWAY_API_URL is not set", id="url"
        ),
        pytest.param(
            {"DASK_GATEWAY_API_TOKEN": MISSING}, f"'{MISSING}'", id="token-file"
        ),
        pytest.param(
            {
                "DASK_GATEWAY_API_URL": "https://127.0.0.1:9/api",
                "DASK_GATEWAY_API_CA_FILE": MISSING,
            },
            f"DASK_GATEWAY_API_CA_FILE cannot be used: {MISSING}",
            id="ca-file",
        ),
    ],
)
async def test_broken_set_up_ends_the_scheduler_with_the_reason(world, changes, want):
    world.environment["DASK_GATEWAY_API_URL"] = "http://127.0.0.1:9/api"
    for name, value in changes.items():
        world.environment[name] = value or ""

    scheduler = await world.run_scheduler()

    await eventually(lambda: scheduler.returncode is not None, within=60)
    assert scheduler.returncode == 78
    assert want in world.log()
    assert TOKEN not in world.log()


async def test_scheduler_without_what_we_hook_into_is_ended(world):
    spoiler = world.folder / "spoiler.py"
    spoiler.write_text(
        "def dask_setup(scheduler):\n    del scheduler.handlers['register-worker']\n"
    )
    world.environment["DASK_GATEWAY_API_URL"] = "http://127.0.0.1:9/api"

    scheduler = await world.run_scheduler(spoiler, PLUGIN)

    await eventually(lambda: scheduler.returncode is not None, within=60)
    assert scheduler.returncode == 78
    assert "KeyError('register-worker')" in world.log()


async def test_token_may_come_from_a_file_and_the_plugin_by_its_name(world):
    token = world.folder / "token"
    token.write_text(TOKEN + "\n")
    world.environment["DASK_GATEWAY_API_TOKEN"] = str(token)
    world.environment["PYTHONPATH"] = str(PLUGIN.parents[1])

    await world.start("gateway.scheduler_plugin")

    assert world.server.last.ports


async def test_plugin_ends_with_its_scheduler(world):
    await world.start()

    world.scheduler.terminate()

    await eventually(lambda: world.scheduler.returncode is not None)
    assert "Traceback" not in world.log().split("End scheduler")[0]
    assert "Task was destroyed" not in world.log()
