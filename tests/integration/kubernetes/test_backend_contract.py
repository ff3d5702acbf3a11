"""The backend's contract, on a real API server and under the Role of the chart."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.domain.policy import Policy
from tests.contract.backend.test_backend import *  # noqa: F403 - its tests run here too
from tests.harness.control_plane import ControlPlane
from tests.support.backend_subject import Subject
from tests.support.kube_backend import GatewaySite, kube_subject
from tests.support.kube_kind import install_kind

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.fixture(scope="session")
def plane(apiserver: ControlPlane) -> ControlPlane:
    return install_kind(apiserver)


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> Policy:
    return getattr(request, "param", Policy())


@pytest_asyncio.fixture
async def subject(plane, make_namespace, policy: Policy) -> AsyncIterator[Subject]:
    site = GatewaySite(plane, make_namespace("gateway"))
    async with kube_subject(site, policy) as made:
        yield made
