"""What an API server would refuse is found before."""

import pytest

from backends.kubernetes.customise.fields import shape_of
from backends.kubernetes.customise.paths import format_path
from backends.kubernetes.customise.soundness import find_flaws


def flaws(spec, **more):
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec, **more}
    return [
        (str(flaw.reason), format_path(flaw.path), flaw.text)
        for flaw in find_flaws(pod, shape_of(pod, {}))
    ]


def container(**fields):
    return {"containers": [{"name": "c", **fields}]}


PROBE = {"httpGet": {"port": 1}}
FLAWS = [
    pytest.param(
        {"hostNetwork": "true"}, "hostNetwork", "must be true or false", id="bool"
    ),
    pytest.param(
        {"hostNetwork": 1}, "hostNetwork", "must be true or false", id="number"
    ),
    pytest.param({"hostname": True}, "hostname", "must be a text", id="text"),
    pytest.param({"priority": "1"}, "priority", "must be an integer", id="integer"),
    pytest.param(
        {"priority": True}, "priority", "must be an integer", id="bool-integer"
    ),
    pytest.param({"overhead": {"cpu": True}}, "overhead.cpu", "an amount", id="amount"),
    pytest.param({"overhead": []}, "overhead", "must be a map", id="map"),
    pytest.param({"tolerations": {}}, "tolerations", "must be a list", id="list"),
    pytest.param({"tolerations": [None]}, "tolerations[0]", "not be null", id="null"),
    pytest.param(
        {"tolerations": ["x"]}, "tolerations[0]", "must be a map", id="struct"
    ),
    pytest.param(
        {"securityContext": "x"}, "securityContext", "must be a map", id="struct-2"
    ),
    pytest.param({"containerz": []}, "containerz", "is no field", id="unknown"),
    pytest.param(
        {"containers": [{"image": "x"}]},
        "containers[0]",
        "a map with name",
        id="no-name",
    ),
    pytest.param(
        container(livenessProbe={"httpGet": {"port": True}}),
        "containers[c].livenessProbe.httpGet.port",
        "an integer or a text",
        id="port",
    ),
    pytest.param(
        container(livenessProbe={"periodSeconds": 1}),
        "containers[c].livenessProbe",
        "must have one of exec, grpc, httpGet, tcpSocket",
        id="no-handler",
    ),
    pytest.param(
        container(livenessProbe={**PROBE, "exec": {}}),
        "containers[c].livenessProbe",
        "has exec and httpGet",
        id="two-handlers",
    ),
    pytest.param(
        container(lifecycle={"preStop": {}}),
        "containers[c].lifecycle.preStop",
        "must have one of exec, httpGet, sleep, tcpSocket",
        id="no-hook",
    ),
    pytest.param(
        container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {}}}]),
        "containers[c].env[A]",
        "has value and valueFrom",
        id="value",
    ),
    pytest.param(
        container(env=[{"name": "A", "valueFrom": {}}]),
        "containers[c].env[A].valueFrom",
        "must have one of configMapKeyRef",
        id="value-from",
    ),
    pytest.param(
        container(envFrom=[{"prefix": "A"}]),
        "containers[c].envFrom[0]",
        "must have one of configMapRef, secretRef",
        id="env-from",
    ),
    pytest.param(
        container(volumeMounts=[{"mountPath": "/a"}, {"mountPath": "/a"}]),
        "containers[c].volumeMounts[/a]",
        "stands twice",
        id="row-p18-twice",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "emptyDir": {}, "secret": {}}]},
        "volumes[v]",
        "has emptyDir and secret",
        id="volume",
    ),
]


@pytest.mark.parametrize(("spec", "path", "says"), FLAWS)
def test_a_flaw_is_found_with_its_path(spec, path, says) -> None:
    found = [flaw for flaw in flaws(spec) if flaw[1] == f"spec.{path}"]

    assert found, flaws(spec)
    assert says in found[0][2]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"hostname": None, "tolerations": None}, id="nulls"),
        pytest.param(container(livenessProbe=PROBE), id="probe"),
        pytest.param(
            container(env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {}}}]),
            id="empty-value",
        ),
        pytest.param({"volumes": [{"name": "v"}]}, id="volume-without-source"),
        pytest.param(
            container(resources={"limits": {"cpu": 1, "memory": "1Gi", "x/y": 1.5}}),
            id="amounts",
        ),
        pytest.param(
            container(
                ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]
            ),
            id="ports",
        ),
    ],
)
def test_what_a_server_takes_has_no_flaw(spec) -> None:
    assert flaws(spec) == []


def test_of_another_kind_only_what_is_known_is_looked_at() -> None:
    route = {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "IngressRoute",
        "metadata": {"labels": {"a": 1}},
        "spec": {
            "anything": {"goes": [1, None]},
            "routes": [{"match": "a"}, {"match": "a"}],
        },
    }

    found = [format_path(f.path) for f in find_flaws(route, shape_of(route, {}))]

    assert found == ["metadata.labels.a", "spec.routes[a]"]
