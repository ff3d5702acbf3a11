"""The plain API server of the harness, its accounts and its audit log."""

import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.harness.api import CallFailed
from tests.harness.control_plane import ControlPlane, Settings
from tests.harness.kubectl import Kubectl
from tests.harness.service import ServiceFailed
from tests.support.audit import (
    AuditLog,
    Right,
    count,
    find_refused,
    find_unused,
    read_rights,
)
from tests.support.eventually import eventually

READ_CONFIG = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch"]}
]


def test_the_server_is_verified_by_its_own_authority_and_no_other(
    apiserver: ControlPlane,
) -> None:
    api = apiserver.client()

    assert api.get("/version")["major"] == "1"
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(
            f"{apiserver.url}/version", context=ssl.create_default_context()
        )


def test_an_account_has_the_rights_that_it_was_given_and_no_others(
    apiserver, namespace, make_namespace, service_account
) -> None:
    account = service_account("reader", READ_CONFIG)
    other = make_namespace("other")
    api = account.client()
    apiserver.client().apply(config_map("a", namespace), config_map("b", other))

    assert api.get(f"/api/v1/namespaces/{namespace}/configmaps/a")["data"] == {"k": "v"}
    for path in (f"{namespace}/secrets/a", f"{other}/configmaps/b"):
        with pytest.raises(CallFailed, match=r"403 .*forbidden"):
            api.get(f"/api/v1/namespaces/{path}")

    account.grant(READ_CONFIG, namespace=other)

    assert api.get(f"/api/v1/namespaces/{other}/configmaps/b")["data"] == {"k": "v"}


def test_an_accounts_kubeconfig_makes_kubectl_act_as_that_account(
    service_account,
) -> None:
    account = service_account("reader", READ_CONFIG)
    kubectl = Kubectl(account.kubeconfig)

    user = "jsonpath={.status.userInfo.username}"
    assert kubectl("auth", "whoami", "-o", user) == account.user
    assert kubectl("get", "configmap", "-w=false", "x", "--ignore-not-found") == ""
    refused = kubectl.call("get", "secrets")
    assert "forbidden" in refused.stderr.lower()
    assert account.token not in repr(account)


def test_pods_can_be_made_in_a_new_namespace_at_once(apiserver, namespace) -> None:
    container = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}

    made = apiserver.client().post(f"/api/v1/namespaces/{namespace}/pods", pod)

    assert made["status"]["phase"] == "Pending"


def test_the_audit_log_tells_who_asked_for_what_since_a_mark(
    audit: AuditLog, namespace, service_account
) -> None:
    account = service_account("reader", READ_CONFIG)
    api, base = account.client(), f"/api/v1/namespaces/{namespace}"
    api.call("GET", f"{base}/configmaps/before")

    mark = audit.mark()
    api.call("GET", f"{base}/configmaps/a")
    api.call("GET", f"{base}/configmaps/a")
    api.call("DELETE", f"{base}/configmaps/a")
    api.call("GET", f"{base}/pods/p/log")
    seen = audit.since(mark, user=account.user)

    assert count(seen) == {
        "get configmaps": 2,
        "delete configmaps": 1,
        "get pods/log": 1,
    }
    assert [request.code for request in seen] == [404, 404, 403, 403]
    assert {request.name for request in seen} == {"a", "p"}
    assert audit.since(mark, user=account.user, code=404, verb="get") == seen[:2]
    assert len(audit.since(user=account.user)) == 5


def test_a_watch_is_in_the_log_as_soon_as_it_has_begun(
    audit: AuditLog, apiserver, namespace, service_account
) -> None:
    account = service_account("reader", READ_CONFIG)
    request = urllib.request.Request(
        f"{apiserver.url}/api/v1/namespaces/{namespace}/configmaps?watch=1",
        headers={"Authorization": f"Bearer {account.token}"},
    )

    mark = audit.mark()
    with urllib.request.urlopen(request, context=account.client().context, timeout=60):
        begun = audit.since(mark, user=account.user)
        later = audit.mark()

    assert count(begun) == {"watch configmaps": 1}
    assert audit.since(later, user=account.user) == []


def test_rights_are_compared_with_what_was_used(
    audit: AuditLog, namespace, service_account
) -> None:
    account = service_account("reader", READ_CONFIG)
    api, base = account.client(), f"/api/v1/namespaces/{namespace}"

    mark = audit.mark()
    api.call("GET", f"{base}/configmaps/a")
    api.call("GET", f"{base}/secrets/s")
    granted = read_rights(api, namespace)
    asked = audit.since(mark, user=account.user)

    assert find_unused(granted, asked) == [Right(namespace, "", "configmaps", "watch")]
    assert find_refused(asked) == [Right(namespace, "", "secrets", "get", "s")]


async def test_a_paused_server_answers_nothing_and_then_goes_on(apiserver) -> None:
    api = apiserver.client()
    apiserver.apiserver.pause()
    try:
        with pytest.raises(OSError, match="timed out"):
            api.call("GET", "/version", timeout=1)
    finally:
        apiserver.apiserver.resume()

    assert await eventually(lambda: api.call("GET", "/version").is_ok, within=60)


@pytest.mark.parametrize("service", ["etcd", "apiserver"])
async def test_a_killed_service_comes_back_with_all_that_was_written(
    apiserver, namespace, service
) -> None:
    api = apiserver.client()
    api.apply(config_map("kept", namespace))
    killed = getattr(apiserver, service)
    before = killed.pid

    killed.restart()

    def is_kept() -> bool:
        path = f"/api/v1/namespaces/{namespace}/configmaps/kept"
        return bool(api.call("GET", path).is_ok)

    assert await eventually(is_kept, within=60)
    assert killed.pid != before


@pytest.mark.usefixtures("apiserver")
def test_a_service_that_cannot_start_fails_with_its_log(tmp_path) -> None:
    flags = ["--authorization-mode=NoSuchMode"]
    plane = ControlPlane(Settings(tmp_path, apiserver_flags=flags))
    try:
        with pytest.raises(ServiceFailed) as failure:
            plane.apiserver.start()
    finally:
        plane.stop()

    assert "kube-apiserver ended with 1" in str(failure.value)
    assert "is not a valid mode" in str(failure.value)


async def test_the_controllers_collect_what_lost_its_owner(
    apiserver, namespace
) -> None:
    apiserver.start_controllers()
    api = apiserver.client()
    (owner,) = api.apply(config_map("owner", namespace))
    owned = config_map("owned", namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    owned["metadata"]["ownerReferences"] = [
        reference | {"uid": owner["metadata"]["uid"]}
    ]
    api.apply(owned)

    api.delete(api.path_of(owner))

    assert await eventually(lambda: api.find(api.path_of(owned)) is None, within=60)


def config_map(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"k": "v"},
    }
