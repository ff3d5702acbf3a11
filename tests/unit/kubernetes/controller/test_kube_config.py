"""Settings of Kubernetes as plain values, under the peer's names."""

import pytest
from traitlets.config import Config

from backends.kubernetes.cluster_config import (
    KubeClusterConfig,
    build_scheduler_settings,
    build_worker_settings,
)
from backends.kubernetes.config import KubeController
from backends.kubernetes.desired.blueprint import WORKER_COMMAND
from gateway.domain.errors import ConfigError


def controller(**settings: object) -> KubeController:
    config = Config()
    config.KubeController.update(
        {"gateway_instance": "g", "api_url": "http://g/api", **settings}
    )
    return KubeController(config=config)


def test_the_peers_settings_of_a_cluster_make_its_pods() -> None:
    config = KubeClusterConfig(
        image="img:1",
        image_pull_secrets=["a", {"name": "b"}],
        worker_cores=0.5,
        worker_memory="4 G",
        worker_memory_limit="6 G",
        environment={"A": "1"},
        worker_extra_pod_config={"tolerations": [{"key": "gpu"}]},
        worker_extra_container_config={"workingDir": "/w"},
        worker_extra_pod_labels={"team": "x"},
    )

    worker = build_worker_settings(config.resolve())

    assert worker.image == "img:1"
    assert worker.image_pull_secrets == ("a", "b")
    assert (worker.cores, worker.threads) == (0.5, 1)
    assert worker.memory_bytes == 4 * 2**30
    assert worker.memory_limit_bytes == 6 * 2**30
    assert worker.command == WORKER_COMMAND
    assert worker.environment == {"A": "1"}
    assert worker.template == {
        "metadata": {"labels": {"team": "x"}},
        "spec": {
            "containers": [{"name": "dask-worker", "workingDir": "/w"}],
            "tolerations": [{"key": "gpu"}],
        },
    }


def test_extra_containers_stand_beside_fields_of_ours() -> None:
    config = KubeClusterConfig(
        scheduler_extra_container_config={"workingDir": "/w"},
        scheduler_extra_pod_config={"containers": [{"name": "side", "image": "s"}]},
    )

    template = build_scheduler_settings(config.resolve()).template

    names = [container["name"] for container in template["spec"]["containers"]]
    assert names == ["dask-scheduler", "side"]


def test_an_extra_that_does_not_fit_is_told_with_its_setting() -> None:
    config = KubeClusterConfig(
        worker_extra_container_config={"workingDir": "/w"},
        worker_extra_pod_config={"containers": {"not": "a list"}},
    )

    with pytest.raises(ConfigError, match="worker_extra_pod_config"):
        build_worker_settings(config.resolve())


def test_what_is_missing_is_told_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DASK_GATEWAY_INSTANCE", raising=False)

    with pytest.raises(ConfigError) as refused:
        KubeController().resolve()

    assert len(refused.value.problems) == 2


def test_the_instance_comes_from_the_peers_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DASK_GATEWAY_INSTANCE", "release")

    assert KubeController().gateway_instance == "release"
    assert KubeController().lease_name == "release-controller"


def test_routes_of_our_own_are_made_only_where_asked_for() -> None:
    plain = controller().resolve()
    routed = controller(
        routes="ingressroute",
        proxy_prefix="dask/",
        proxy_web_middlewares=[{"name": "m", "namespace": "n"}],
    ).resolve()

    assert plain.objects.routes is None
    assert routed.objects.routes is not None
    assert routed.objects.routes.prefix == "/dask"
    assert routed.objects.routes.middlewares == (("m", "n"),)


def test_a_prefix_that_would_break_a_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"KubeController\.proxy_prefix"):
        controller(proxy_prefix="/a`) || Path(`/b").resolve()


@pytest.mark.parametrize(
    ("traits", "namespaces", "is_cluster_scoped"),
    [
        ({"namespaces": ["team"]}, ("team",), False),
        ({"namespaces": []}, (), True),
        ({"namespaces": ["team"], "namespace_selector": "a=b"}, (), True),
        ({"namespaces": [], "anchor_is_cluster_scoped": False}, (), False),
    ],
)
def test_where_the_chart_knows_no_namespaces_one_owner_is_for_all(
    traits: dict[str, object], namespaces: tuple[str, ...], *, is_cluster_scoped: bool
) -> None:
    settings = controller(**traits).resolve()

    assert settings.namespaces == namespaces
    assert settings.namespace_selector == traits.get("namespace_selector", "")
    assert settings.anchor_owner.is_cluster_scoped is is_cluster_scoped


def test_the_lease_has_kubernetes_own_proportions() -> None:
    times = controller().resolve().lease_times

    assert (times.duration_s, times.renew_s, times.retry_s) == (15, 10, 2)


def test_the_plugin_is_the_file_that_schedulers_load() -> None:
    plugin = controller().resolve().objects.plugin

    assert "def dask_setup" in plugin
