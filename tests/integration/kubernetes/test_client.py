"""Our client against a real API server: what it sends, and what it makes of answers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.connection import load_connection
from backends.kubernetes.api.errors import (
    AlreadyExists,
    Denied,
    Invalid,
    NoNamespace,
    NoSuchKind,
    NotFound,
    QuotaExceeded,
    StaleWrite,
    Transient,
)
from backends.kubernetes.api.resources import CONFIG_MAPS, PODS, Resource
from gateway.domain.errors import ConfigError
from tests.support.fault_proxy import DropAnswer, FaultProxy, Refuse

pytestmark = pytest.mark.integration

RULES = [
    {
        "apiGroups": [""],
        "resources": ["configmaps", "pods"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    }
]


class Calls:
    """What a meter was told."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, int]] = []

    def note_call(
        self, verb: str, resource: str, status: int, duration_s: float
    ) -> None:
        assert duration_s >= 0
        self.made.append((verb, resource, status))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def client(service_account, calls: Calls) -> AsyncIterator[KubeClient]:
    account = service_account("client", RULES)
    made = await KubeClient.connect(str(account.kubeconfig), meter=calls)
    yield made
    await made.close()


def config_map(name: str, **entries: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": entries}


async def test_an_object_lives_and_dies_by_our_calls(
    client: KubeClient, namespace, calls: Calls
) -> None:
    made = json.loads(
        await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    )
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace=namespace)
    replace = [{"op": "replace", "path": "/data/k", "value": "3"}]
    await client.patch(CONFIG_MAPS, "a", replace, namespace=namespace)
    found = json.loads(await client.get(CONFIG_MAPS, "a", namespace=namespace))
    listed = json.loads(await client.read_list(CONFIG_MAPS, namespace=namespace))
    uid = made["metadata"]["uid"]
    gone = await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=uid)
    again = await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=uid)

    assert client.namespace == namespace
    assert found["data"] == {"k": "3"}
    # Where controllers run, they add one of their own.
    names = {item["metadata"]["name"] for item in listed["items"]}
    assert names - {"kube-root-ca.crt"} == {"a"}
    assert gone is not None
    assert again is None
    assert ("create", "configmaps", 201) in calls.made
    assert calls.made[-1] == ("delete", "configmaps", 404)


async def test_a_delete_spares_what_is_not_the_very_object(
    client: KubeClient, namespace
) -> None:
    made = json.loads(
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    )["metadata"]
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace=namespace)

    with pytest.raises(StaleWrite):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
    with pytest.raises(StaleWrite):
        await client.delete(
            CONFIG_MAPS,
            "a",
            namespace=namespace,
            uid=made["uid"],
            resource_version=made["resourceVersion"],
        )

    assert await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_a_patch_with_a_version_compares_and_sets(
    client: KubeClient, namespace
) -> None:
    made = json.loads(
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    )
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    patch = {"metadata": version, "data": {"k": "2"}}
    await client.patch(CONFIG_MAPS, "a", patch, namespace=namespace)

    with pytest.raises(StaleWrite):
        await client.patch(
            CONFIG_MAPS, "a", patch | {"data": {"k": "3"}}, namespace=namespace
        )


async def test_refusals_are_told_apart(
    client: KubeClient, apiserver, namespace, make_namespace
) -> None:
    other = make_namespace("other")
    await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "b", namespace=namespace)
    with pytest.raises(Denied) as denied:
        await client.get(CONFIG_MAPS, "b", namespace=other)
    with pytest.raises(Invalid):
        await client.create(CONFIG_MAPS, config_map("Not_A_Name"), namespace=namespace)

    assert not denied.value.is_policy

    kind = Resource("/apis/nowhere.io/v1", "things")
    large = config_map("large", k="x" * 2_000_000)
    admin = await load_connection(
        str(apiserver.write_kubeconfig(apiserver.folder / "admin", apiserver.token))
    )
    everything = KubeClient(admin)
    try:
        with pytest.raises(NoNamespace):
            await everything.create(CONFIG_MAPS, config_map("a"), namespace="nowhere")
        with pytest.raises(NoSuchKind):
            await everything.get(kind, "a", namespace=namespace)
        with pytest.raises(Invalid, match=r"too large|Too long|must have at most"):
            await everything.create(CONFIG_MAPS, large, namespace=namespace)
    finally:
        await everything.close()


async def test_policy_and_quota_are_told_apart(
    client: KubeClient, apiserver, namespace
) -> None:
    api = apiserver.client()
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": strict}})
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "c", "image": "i"}],
        },
    }

    with pytest.raises(Denied, match="PodSecurity") as denied:
        await client.create(PODS, pod, namespace=namespace)

    assert denied.value.is_policy

    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.post(path, quota)
    api.patch(
        f"{path}/q/status",
        {"status": {"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}}},
    )
    with pytest.raises(QuotaExceeded, match="exceeded quota: q"):
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)


async def test_a_lost_answer_and_a_busy_server_are_transient(
    client: KubeClient, apiserver, namespace
) -> None:
    async with FaultProxy(apiserver) as proxy:
        through = KubeClient(client._connection, url=proxy.url)
        try:
            proxy.rule = lambda _: DropAnswer()
            with pytest.raises(Transient, match="no answer"):
                await through.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
            proxy.rule = lambda _: Refuse(429, "slow down", {"Retry-After": "3"})
            with pytest.raises(Transient) as busy:
                await through.get(CONFIG_MAPS, "a", namespace=namespace)
        finally:
            await through.close()

    assert busy.value.retry_after_s == 3
    assert await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_lines_of_any_length_come_whole(client: KubeClient, namespace) -> None:
    long = "x" * 700_000
    query = {"watch": "1", "resourceVersion": "0"}
    await client.create(CONFIG_MAPS, config_map("long", k=long), namespace=namespace)

    async for line in client.stream(CONFIG_MAPS, namespace=namespace, query=query):
        event = json.loads(line)
        if event["object"]["metadata"]["name"] == "long":
            break

    assert event["object"]["data"]["k"] == long


async def test_without_any_api_server_the_configuration_is_at_fault(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"no Kubernetes API server by .*absent"):
        await load_connection(str(tmp_path / "absent"))
