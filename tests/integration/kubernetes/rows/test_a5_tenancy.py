"""Rows of `users.md`, A5, and W28, W34: rights of one namespace, and no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.accounts import create_namespace
from tests.harness.control_plane import ControlPlane
from tests.support.audit import AuditLog, find_refused
from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.rights import read_rules
from tests.support.settling import WITHIN, ask, has_workers, runs, says

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kubelet"),
]


@pytest.fixture(scope="module")
def other(plane: ControlPlane) -> Iterator[str]:
    """A namespace that the gateway has nothing to do with."""
    api = plane.client()
    name = create_namespace(api, "other")
    yield name
    api.delete(f"/api/v1/namespaces/{name}", propagationPolicy="Background")
    api.close()


async def test_rows_65_and_w34_rights_in_one_namespace_are_enough(
    site: Site, other: str, audit: AuditLog
) -> None:
    mark = audit.mark()
    site.make_cluster("inside", replicas=2)
    await runs(site, "inside", 2)
    site.make_cluster("outside", targetNamespace=other)
    await says(site, "outside", "CredentialsReady", f"not serve namespace {other}")
    site.scale("inside", 3)
    await has_workers(site, "inside", 3)

    asked = audit.since(mark, user=site.account.user)
    assert find_refused(asked) == []
    assert {r.namespace for r in asked} == {site.home, site.targets[0]}
    secrets = {(r.verb, r.namespace) for r in asked if r.resource == "secrets"}
    assert ("create", site.targets[0]) in secrets
    assert {verb for verb, place in secrets if place != site.home} == {"create"}


async def test_w34_the_controller_can_read_no_secret_of_a_target(
    site: Site, other: str
) -> None:
    target = site.targets[0]
    made = site.make_cluster("closed")
    name = f"dask-{made['metadata']['uid']}-1"
    path = f"/api/v1/namespaces/{target}/secrets/{name}"
    await eventually(lambda: site.api.find(path), within=WITHIN)
    account = site.account.client()

    refused = {
        call: account.call(*call).status
        for call in (
            ("GET", path),
            ("GET", f"/api/v1/namespaces/{target}/secrets"),
            ("PATCH", path),
            ("DELETE", path),
            ("GET", "/api/v1/pods"),
            ("GET", f"/api/v1/namespaces/{other}/pods"),
            ("GET", f"/api/v1/namespaces/{site.home}/secrets"),
        )
    }
    account.close()

    assert set(refused.values()) == {403}, refused


def test_w34_no_role_of_the_chart_has_a_wildcard_or_a_verb_that_escalates() -> None:
    rules = [
        rule
        for name in ("controller.yaml", "controller-target.yaml", "gateway.yaml")
        for rule in read_rules(name)
    ]
    words = {w for r in rules for key in r for w in r[key]}

    assert words & {"*", "bind", "escalate", "impersonate"} == set()
    assert {"pods/exec", "pods/attach", "serviceaccounts/token"} & words == set()


async def test_w28_two_controllers_take_turns_and_say_how_they_are(
    plane: ControlPlane, make_namespace, tmp_path: Path, audit: AuditLog
) -> None:
    """The peer has one replica, no probe, and lists everything everywhere."""
    home, target = make_namespace("gateway"), make_namespace("team")
    site, mark = Site(plane, home, (target,), tmp_path), audit.mark()
    try:
        await take_turns(site)
    finally:
        site.close()

    asked = audit.since(mark, user=site.account.user)
    assert [r for r in asked if not r.namespace] == []


async def take_turns(site: Site) -> None:
    first = site.start_controller()
    site.make_cluster("shared", replicas=1)
    await runs(site, "shared", 1)
    second = site.start_controller()
    await eventually(lambda: ask(second.url, "/readyz") == (200, "ok"), within=WITHIN)
    assert "daskfleet_leading 0.0" in ask(second.url, "/metrics")[1]
    assert ask(first.url, "/healthz") == ask(second.url, "/healthz") == (200, "ok")

    assert first.stop() == 0
    site.scale("shared", 2)
    await has_workers(site, "shared", 2)

    assert site.status("shared")["workers"]["epoch"] == 1
    metrics = ask(second.url, "/metrics")[1]
    for name in (
        "daskfleet_leading 1.0",
        "daskfleet_queue_clusters ",
        "daskfleet_queue_wait_seconds_count ",
        "daskfleet_watch_age_seconds{",
        'daskfleet_clusters{phase="Running"',
        'daskfleet_kube_calls_total{resource="pods",status="201",verb="create"}',
    ):
        assert name in metrics
