"""One file configures API server and controller, and is checked as a whole."""

import pytest

from gateway.config.check import check_file

BASE = """
c.DaskGateway.backend_class = "kubernetes"
c.KubeBackend.gateway_instance = "prod"
"""


def check(tmp_path, *lines: str) -> list[str]:
    path = tmp_path / "config.py"
    path.write_text(BASE + "\n".join(lines))
    return [p.format().replace(str(path), "FILE") for p in check_file(path)]


def test_a_file_for_both_processes_has_no_problems(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("DASK_GATEWAY_INSTANCE", raising=False)

    assert (
        check(
            tmp_path,
            "from dask_gateway_server.backends.kubernetes import KubeBackend",
            "c.DaskGateway.backend_class = KubeBackend",
            "c.KubeController.api_url = 'http://gateway:8000/api'",
            "c.KubeClusterConfig.namespace = 'team-{group}'",
            "c.KubeBackend.target_namespaces = ['team-*']",
            "c.KubeBackend.relay_urls = ['http://controller:8001']",
            "c.KubeBackend.relay_token_file = '/etc/token'",
        )
        == []
    )


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (
            "c.KubeController.namespacesx = []",
            "KubeController.namespacesx: no setting has this name",
        ),
        ("c.KubeController.routes = 'x'", "KubeController.routes: "),
        (
            "c.KubeBackend.gateway_instance = ''",
            "KubeBackend.gateway_instance: must be set, or DASK_GATEWAY_INSTANCE",
        ),
        ("c.KubeBackend.k8s_api_timeout = 0", "k8s_api_timeout: must be > 0"),
        (
            "c.KubeBackend.relay_urls = ['http://x']",
            "relay_token_file: must be set with relay_urls",
        ),
        (
            "c.KubeClusterConfig.namespace = 'team-{team}'",
            "KubeClusterConfig.namespace: knows no {team}",
        ),
        (
            "c.Backend.cluster_config_class = 'gateway.config.cluster.ClusterConfig'",
            "cluster_config_class: must be a kind of KubeClusterConfig",
        ),
    ],
)
def test_what_is_wrong_is_told_before_the_start(tmp_path, line, want) -> None:
    (problem, *_) = check(tmp_path, line)

    assert want in problem
