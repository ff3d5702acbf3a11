"""P3 and P13 of `limits.md`: what a cluster costs the API server, in calls."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.audit import AuditLog, Request
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.settling import (
    WITHIN,
    conditions,
    has_nothing_left,
    has_workers,
    reaches,
    runs,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kubelet"),
]

# Writes of the status until all workers are ready.
STATUSES = 3


async def test_p3_a_cluster_costs_what_its_price_list_says(
    site: Site, audit: AuditLog
) -> None:
    # What a namespace costs once, and the informers' own calls, are paid before.
    site.make_cluster("first")
    await runs(site, "first", 0)

    # Workers that come seconds apart on a busy machine cost a status more; not
    # each time.
    for name in ("cheap-0", "cheap-1", "cheap-2"):
        mark = audit.mark()
        site.make_cluster(name, replicas=4)
        await runs(site, name, 4)
        await is_settled(site, name)
        created = calls(site, audit.since(mark))
        if created["patch daskclusters/status"] <= STATUSES:
            break

    mark = audit.mark()
    looks = iter(range(30))
    await eventually(lambda: next(looks) == 29, every=0.1)
    settled = calls(site, audit.since(mark))

    mark = audit.mark()
    site.scale(name, 5)
    await has_workers(site, name, 5)
    await is_settled(site, name)
    scaled = calls(site, audit.since(mark))

    mark = audit.mark()
    site.api.patch(site.path(name), {"spec": {"active": False}})
    await reaches(site, name, "Stopped")
    await has_nothing_left(site, name)
    stopped = calls(site, audit.since(mark))

    # One status each for the start, for Running with its worker set, and for ready
    # workers; one may cross the first sync's, and be refused.
    assert created.pop("patch daskclusters/status") <= STATUSES
    assert created.pop("patch daskclusters/status 409", 0) <= 1
    # The plugin is there, which shows only when its ConfigMap is made: had somebody
    # deleted it, no other scheduler would start.
    assert created == {
        "get secrets 404": 1,
        "create secrets": 2,
        "create services": 1,
        "create configmaps 409": 1,
        "create pods": 5,
    }
    assert settled == {}
    assert scaled == {
        "patch daskclusters/status": 2,
        "create pods": 1,
    }
    assert stopped == {
        "delete services": 1,
        "patch daskclusters/status": 1,
    }


async def is_settled(site: Site, name: str) -> None:
    await eventually(
        lambda: conditions(site.status(name))["WorkersReady"] == "True", within=WITHIN
    )


def calls(site: Site, requests: Iterable[Request]) -> Counter[str]:
    """Return what the controller asked for clusters: no lease, no watch, no Event.

    To these come one write of the cluster by its owner and one of the first sync by
    the API server, which here is the test's admin, who is not in the log.
    """
    found: Counter[str] = Counter()
    for request in requests:
        is_ours = request.user == site.account.user and request.verb != "watch"
        if is_ours and request.resource not in ("leases", "events"):
            code = f" {request.code}" if request.code >= 400 else ""
            found[f"{request.verb} {request.resource}{code}"] += 1
    return found
