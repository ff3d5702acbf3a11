"""The kind `DaskCluster`, on an API server of a test."""

import time

from tests.harness.control_plane import ControlPlane
from tests.harness.kubectl import Kubectl
from tests.support.sources import ROOT

_KIND = "/apis/daskfleet.io/v1alpha1/daskclusters"
_SERVED_S = 60.0
_POLL_S = 0.05


def install_kind(plane: ControlPlane) -> ControlPlane:
    """Return ``plane``, once its API server knows `DaskCluster`."""
    crd = ROOT / "chart/crds/daskclusters.json"
    Kubectl.of_admin(plane)("apply", "-f", str(crd))
    api, deadline = plane.client(), time.monotonic() + _SERVED_S
    while not api.call("GET", _KIND).is_ok:
        assert time.monotonic() < deadline, "the kind is not served"
        time.sleep(_POLL_S)
    api.close()
    return plane
