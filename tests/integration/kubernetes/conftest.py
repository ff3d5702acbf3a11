"""A real API server for the folder's tests, and namespaces and accounts on it.

`apiserver` is etcd and an API server alone, and runs anywhere. A test that asks
for `node` gets a whole Kubernetes with a kubelet, and its namespaces and accounts
are there instead; it runs in the world of ``tests/harness/world.sh`` only.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.harness.accounts import Account, Rules, create_account, create_namespace
from tests.harness.control_plane import ControlPlane, Settings
from tests.harness.node import Node
from tests.harness.possible import (
    WORLD,
    why_no_control_plane,
    why_no_node,
    why_no_world,
)
from tests.support import rights, secrets
from tests.support.audit import AuditLog
from tests.support.kube_kind import install_kind
from tests.support.kubelet import StandInKubelet

# The first test starts the node; others start clusters, on a machine that is loaded.
_NODE_TEST_S = 400
_HERE = Path(__file__).parent
IS_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

MakeNamespace = Callable[..., str]
MakeAccount = Callable[..., Account]
_LEFT_OUT: pytest.StashKey[Counter[str]] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what cannot run here and say so; in CI it runs, and fails."""
    for item in items:
        if "node" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker("node")  # `tools/check.py` runs them beside the others
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_NODE_TEST_S))
    if IS_CI:
        return
    left_out = {item: why for item in items if (why := _why_left_out(item))}
    config.stash[_LEFT_OUT] = Counter(left_out.values())
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _why_left_out(item: pytest.Item) -> str:
    if not item.path.is_relative_to(_HERE):
        return ""
    # The dearest first: each tries more of the machine.
    needs = {
        "node": why_no_node,
        "world": why_no_world,
        "apiserver": why_no_control_plane,
        "control_plane": why_no_control_plane,
    }
    asked = getattr(item, "fixturenames", ())
    return next((needs[name]() for name in needs if name in asked), "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:
    """Tell, beside a failure, which services have ended and their last words."""
    report = yield
    if call.excinfo is not None:
        for name in ("apiserver", "node"):
            owner = getattr(item, "funcargs", {}).get(name)
            for service in owner.services.values() if owner else ():
                if service.has_ended:
                    report.sections.append((f"{service.name} ended", service.tail()))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for why, tests in config.stash.get(_LEFT_OUT, Counter()).items():
        terminalreporter.write_line(f"Left out: {tests} tests on Kubernetes: {why}")


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start etcd and an API server, with no controllers and no node.

    `ControlPlane.url`, ``authority`` (PEM file), ``token`` and `client()` are what
    tests use; `start_controllers` adds garbage collection.
    """
    plane = ControlPlane(Settings(tmp_path_factory.mktemp("apiserver")))
    for token in plane.secrets:
        secrets.remember(token, "a token of the control plane")
    try:
        yield plane.start()
    finally:
        plane.stop()
        rights.record(plane.audit_log)


@pytest.fixture(scope="session")
def world() -> Path:
    """Return the program that makes a world; within a world it makes another."""
    return WORLD


@pytest.fixture(scope="session")
def plane(apiserver: ControlPlane) -> ControlPlane:
    """The plain API server, which knows `DaskCluster`, with garbage collection."""
    install_kind(apiserver).start_controllers()
    return apiserver


@pytest.fixture(scope="module")
def kubelet(plane: ControlPlane) -> Iterator[StandInKubelet]:
    """One for the pods of a module."""
    with StandInKubelet(plane) as started:
        yield started


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Start a whole Kubernetes with a kubelet; needs a world."""
    started = Node(tmp_path_factory.mktemp("node"))
    for token in started.control_plane.secrets:
        secrets.remember(token, "a token of the control plane")
    try:
        yield started.start()
    finally:
        started.stop()
        rights.record(started.control_plane.audit_log)


@pytest.fixture(scope="session")
def clusters_node(node: Node) -> Node:
    """The node, whose API server knows `DaskCluster`."""
    install_kind(node.control_plane)
    return node


@pytest.fixture
def control_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """The API server of this test: the node's if it has one, else the plain one."""
    if "node" in request.fixturenames:
        plane: ControlPlane = request.getfixturevalue("node").control_plane
    else:
        plane = request.getfixturevalue("apiserver")
    return plane


@pytest.fixture
def audit(control_plane: ControlPlane) -> AuditLog:
    """Requests that the test's API server has answered."""
    return AuditLog(control_plane.audit_log, control_plane.client())


@pytest.fixture
def make_namespace(control_plane: ControlPlane) -> Iterator[MakeNamespace]:
    """Make namespaces by ``make_namespace(prefix, labels={…})``; they end with it."""
    api, made = control_plane.client(), []

    def make(prefix: str = "test", *, labels: Mapping[str, str] | None = None) -> str:
        made.append(create_namespace(api, prefix, labels=labels))
        return made[-1]

    yield make
    for name in made:
        # Nobody waits: the next test has namespaces of its own. Where no controllers
        # run, the rest stays; pods would be run by the next stand-in kubelet.
        now = {"gracePeriodSeconds": 0}
        api.delete(f"/api/v1/namespaces/{name}/pods", now)
        api.delete(f"/api/v1/namespaces/{name}", propagationPolicy="Background")
    api.close()


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace of the test's own."""
    return make_namespace()


@pytest.fixture
def service_account(control_plane: ControlPlane, namespace: str) -> MakeAccount:
    """Make accounts by ``service_account(name, rules, namespace=…)``.

    Rules are those of a Role in the account's namespace; `Account.grant` adds
    rights elsewhere. The account has its token, kubeconfig and client.
    """

    def make(name: str, rules: Rules = (), *, namespace: str = namespace) -> Account:
        account = create_account(control_plane, namespace, name, rules)
        secrets.remember(account.token, f"the token of service account {name}")
        return account

    return make
