"""One gateway for the folder's tests, and the stock client to it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from dask_gateway import BasicAuth, Gateway

from tests.support.client_threads import start_client_threads
from tests.support.stack import PASSWORD, Stack, running_stack

OPTIONS = """
from dask_gateway_server.options import Options, Integer, String, Select, Float

def handler(options, user):
    if options.flavour == "broken":
        raise ValueError(f"flavour 'broken' is not for {user.name}\\nask an admin")
    commands = {
        "missing": {"scheduler_cmd": ["no-such-dask-command"]},
        "exits": {"scheduler_cmd": ["sh", "-c", "echo MARKER-7351 >&2; exit 3"]},
        "silent": {"scheduler_cmd": ["sh", "-c", "sleep 300"]},
        "crashing": {"worker_cmd": ["sh", "-c", "echo WORKER-9911 >&2; exit 5"]},
    }
    return {
        "worker_cores": options.worker_cores,
        "environment": {"MY_MARK": options.mark},
        **commands.get(options.flavour, {}),
    }

c.Backend.cluster_options = Options(
    Integer("worker_cores", default=1, min=1, max=4, label="Cores"),
    String("mark", default="none"),
    Select(
        "flavour",
        ["plain", "broken", "missing", "exits", "silent", "crashing"],
        default="plain",
    ),
    handler=handler,
)
c.DBBackendBase.cluster_start_timeout = 20
c.DBBackendBase.worker_start_timeout = 60
"""


@pytest.fixture(scope="session", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack"), OPTIONS) as running:
        yield running


@pytest.fixture
async def gateway(stack: Stack) -> AsyncIterator[Gateway]:
    async with connect(stack) as session:
        yield session
        for report in await session.list_clusters():
            await session.stop_cluster(report.name)


def connect(stack: Stack, user: str = "alice") -> Gateway:
    return Gateway(stack.address, auth=BasicAuth(user, PASSWORD), asynchronous=True)
