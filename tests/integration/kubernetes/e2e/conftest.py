"""One gateway on the node for the folder's tests, and the stock client to it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from dask_gateway import BasicAuth, Gateway

from tests.harness.node import Node
from tests.support.client_threads import start_client_threads
from tests.support.kube_stack import PASSWORD, KubeStack, running_kube_stack

OPTIONS = """
from dask_gateway_server.options import Options, Select, String

def handler(options):
    script = "echo MARKER-7351 >&2; exit 3"
    commands = {
        "exits": {"scheduler_cmd": ["sh", "-c", script, "--"]},
        "imageless": {"image": "test.local/nope:1"},
    }
    return {
        "namespace": options.namespace,
        "environment": {"MY_MARK": options.mark},
        **commands.get(options.flavour, {}),
    }

namespaces = list(c.KubeBackend.target_namespaces)
c.Backend.cluster_options = Options(
    Select("namespace", [*namespaces, "kube-system"], default=namespaces[0]),
    String("mark", default="none"),
    Select("flavour", ["plain", "exits", "imageless"], default="plain"),
    handler=handler,
)
c.KubeClusterConfig.cluster_max_workers = 4
c.KubeClusterConfig.image_pull_timeout = 5
"""


@pytest.fixture(scope="session", autouse=True)
def _client_threads() -> None:
    start_client_threads()


@pytest.fixture(scope="session")
def stack(
    clusters_node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeStack]:
    """Two API servers, two controllers and Traefik, all the time."""
    folder = tmp_path_factory.mktemp("kube-stack")
    with running_kube_stack(clusters_node, folder, extra=OPTIONS) as running:
        yield running


@pytest.fixture
async def gateway(stack: KubeStack) -> AsyncIterator[Gateway]:
    async with connect(stack) as session:
        yield session
        for report in await session.list_clusters():
            await session.stop_cluster(report.name)


def connect(stack: KubeStack, user: str = "alice") -> Gateway:
    return Gateway(stack.address, auth=BasicAuth(user, PASSWORD), asynchronous=True)
