"""One controller process for the tests of a module, on a real API server.

Tests are named after rows of `users.md` and W faults of the contract. Each has
clusters of its own; what asks for a controller of its own says so.
"""

from collections.abc import Iterator

import pytest

from tests.harness.accounts import create_namespace
from tests.harness.control_plane import ControlPlane
from tests.support.audit import AuditLog
from tests.support.controllers import Site
from tests.support.kubelet import StandInKubelet
from tests.support.pod_fates import RUNS


@pytest.fixture(scope="module")
def namespaces(plane: ControlPlane) -> Iterator[tuple[str, str]]:
    """The gateway's namespace of this module, and one for its clusters."""
    api = plane.client()
    names = create_namespace(api, "gateway"), create_namespace(api, "team")
    yield names
    for name in names:
        pods = f"/api/v1/namespaces/{name}/pods"
        api.delete(pods, {"gracePeriodSeconds": 0})
        api.delete(f"/api/v1/namespaces/{name}", propagationPolicy="Background")
    api.close()


@pytest.fixture(scope="module")
def idle_site(
    plane: ControlPlane,
    namespaces: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """A site where no controller runs yet."""
    home, target = namespaces
    made = Site(plane, home, (target,), tmp_path_factory.mktemp("site"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def site(idle_site: Site) -> Site:
    """A site whose controller serves all tests of the module."""
    idle_site.start_controller()
    return idle_site


@pytest.fixture(autouse=True)
def _fates(kubelet: StandInKubelet) -> Iterator[None]:
    yield
    kubelet.decide = lambda _: RUNS


@pytest.fixture
def audit(plane: ControlPlane) -> AuditLog:
    """What the API server was asked."""
    return AuditLog(plane.audit_log, plane.client())
