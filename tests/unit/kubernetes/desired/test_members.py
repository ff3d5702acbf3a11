"""The objects of a cluster, as they are sent."""

import json
from base64 import b64decode
from dataclasses import replace

import pytest

from backends.kubernetes.desired.blueprint import (
    WORKER_COMMAND,
    PodSettings,
    RouteSettings,
)
from backends.kubernetes.desired.labels import build_selector, build_worker_selector
from backends.kubernetes.desired.members import find_refusal, make_member
from backends.kubernetes.desired.middlewares import KINDS
from backends.kubernetes.names import (
    ANNOTATION_CLUSTER_UID,
    ANNOTATION_HASH,
    SEALED_LABELS,
    Child,
    Component,
    WorkerRef,
)
from gateway.domain.errors import InvalidRequest, InvariantError
from tests.support.golden import Golden, golden  # noqa: F401 - a fixture
from tests.support.kube_blueprints import (
    ANCHOR_UID,
    IMAGE,
    OWNER,
    UID,
    a_blueprint,
    some_credentials,
)

EVERY = [*Child, WorkerRef(7)]


def make(member, blueprint=None):
    credentials = some_credentials() if member is Child.CREDENTIALS else None
    return make_member(blueprint or a_blueprint(), member, credentials)


def dask(pod):
    return pod["spec"]["containers"][0]


def env_of(pod):
    return {v["name"]: v.get("value") for v in dask(pod)["env"]}


def sent_bytes(manifest):
    return len(json.dumps(manifest, separators=(",", ":")).encode())


@pytest.mark.parametrize("member", EVERY, ids=str)
def test_each_object_is_as_it_was_reviewed(member, golden: Golden) -> None:  # noqa: F811 - a fixture
    name = "worker" if isinstance(member, WorkerRef) else str(member)

    golden.check_json(f"kubernetes/objects/{name}.json", make(member))


@pytest.mark.parametrize("member", EVERY, ids=str)
def test_each_object_is_labelled_owned_and_in_the_target_namespace(member) -> None:
    metadata = make(member)["metadata"]

    owner = metadata["ownerReferences"]
    assert metadata["namespace"] == "team-a"
    assert len(owner) == 1
    assert metadata["labels"]["app.kubernetes.io/name"] == "daskfleet"
    if member in (Child.ANCHOR, Child.PLUGIN):
        assert owner[0]["uid"] == OWNER.uid
    else:
        assert owner[0]["uid"] == ANCHOR_UID
    missing = SEALED_LABELS - metadata["labels"].keys()
    assert missing == (
        {"daskfleet.io/cluster", "gateway.dask.org/cluster", "daskfleet.io/owner"}
        if member is Child.PLUGIN
        else set()
        if member in (Child.ANCHOR, Child.SCHEDULER)
        else {"daskfleet.io/owner"}
    )


@pytest.mark.parametrize(
    "member", [Child.CREDENTIALS, Child.SCHEDULER, Child.ROUTE_TCP, WorkerRef(0)]
)
def test_nothing_is_made_before_the_anchor_that_owns_it(member) -> None:
    with pytest.raises(InvariantError, match="the anchor comes before"):
        make(member, a_blueprint(anchor_uid=None))


def test_the_anchor_says_whose_it_is_and_selects_the_scheduler_alone() -> None:
    anchor, scheduler = make(Child.ANCHOR), make(Child.SCHEDULER)

    selector = anchor["spec"]["selector"]
    assert anchor["metadata"]["annotations"][ANNOTATION_CLUSTER_UID] == UID
    assert selector.items() <= scheduler["metadata"]["labels"].items()
    assert not selector.items() <= make(WorkerRef(0))["metadata"]["labels"].items()
    assert anchor["spec"]["clusterIP"] == "None"


def test_the_scale_subresource_selects_the_workers_alone() -> None:
    cluster = a_blueprint().cluster.name
    pairs = build_selector("dask", cluster, Component.WORKER)

    text = build_worker_selector("dask", cluster)

    assert text == ",".join(f"{k}={v}" for k, v in sorted(pairs.items()))
    assert pairs.items() <= make(WorkerRef(0))["metadata"]["labels"].items()


def test_pods_see_the_secrets_of_their_role_under_the_peers_names() -> None:
    secret = make(Child.CREDENTIALS)
    files = {}
    for member in (Child.SCHEDULER, WorkerRef(0)):
        volume = make(member)["spec"]["volumes"][0]
        assert volume["name"] == "dask-credentials"
        assert volume["secret"]["secretName"] == secret["metadata"]["name"]
        files[str(member)] = {
            item["path"]: b64decode(secret["data"][item["key"]]).decode()
            for item in volume["secret"]["items"]
        }

    scheduler, worker = files.values()
    assert scheduler == {
        "ca.crt": "certificate of the CA",
        "dask.crt": "certificate of scheduler",
        "dask.pem": "sesame of scheduler",
        "api-token": "sesame",
    }
    assert worker == {
        "ca.crt": "certificate of the CA",
        "dask.crt": "certificate of worker",
        "dask.pem": "sesame of worker",
    }


def test_the_mirrored_secret_holds_nothing_of_the_client_or_the_ca() -> None:
    secret = make(Child.CREDENTIALS)

    texts = [b64decode(value).decode() for value in secret["data"].values()]
    assert not [t for t in texts if "client" in t or "sesame of the CA" in t]
    assert secret["immutable"] is True
    assert UID in secret["metadata"]["name"]
    assert ANNOTATION_HASH not in secret["metadata"].get("annotations", {})


def test_another_generation_of_credentials_is_another_secret() -> None:
    blueprint = replace(a_blueprint(), credentials_generation=2)

    assert make(Child.CREDENTIALS, blueprint)["metadata"]["name"] == f"dask-{UID}-2"
    volume = make(WorkerRef(0), blueprint)["spec"]["volumes"][0]
    assert volume["secret"]["secretName"] == f"dask-{UID}-2"


def test_the_plugins_name_is_that_of_its_content() -> None:
    one, other = a_blueprint(), a_blueprint(plugin="print('newer')\n")
    with_ca = a_blueprint(api_ca="PEM")

    names = {make(Child.PLUGIN, b)["metadata"]["name"] for b in (one, other, with_ca)}

    assert len(names) == 3
    for blueprint in (one, other, with_ca):
        volume = make(Child.SCHEDULER, blueprint)["spec"]["volumes"][1]
        plugin = make(Child.PLUGIN, blueprint)
        assert volume["configMap"]["name"] == plugin["metadata"]["name"]
        assert plugin["immutable"] is True


def test_schedulers_trust_the_certificates_that_the_api_is_given() -> None:
    blueprint = a_blueprint(api_ca="PEM")

    path = env_of(make(Child.SCHEDULER, blueprint))["DASK_GATEWAY_API_CA_FILE"]

    assert path == "/etc/daskfleet/api-ca.crt"
    assert make(Child.PLUGIN, blueprint)["data"]["api-ca.crt"] == "PEM"
    assert "DASK_GATEWAY_API_CA_FILE" not in env_of(make(Child.SCHEDULER))


def test_a_worker_knows_neither_the_token_nor_the_api() -> None:
    text = json.dumps(make(WorkerRef(0)))

    assert "api-token" not in text
    assert "api-daskfleet" not in text


def test_a_worker_pod_is_lean() -> None:
    """P4: at most 2.0 KB sent."""
    assert sent_bytes(make(WorkerRef(123))) <= 2000


def test_schedulers_and_workers_are_restricted_with_a_read_only_root() -> None:
    for member in (Child.SCHEDULER, WorkerRef(0)):
        spec = make(member)["spec"]
        lock = spec["containers"][0]["securityContext"]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert lock == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["restartPolicy"] == "Never"
        assert {"name": "tmp", "emptyDir": {}} in spec["volumes"]


def test_where_the_platform_chooses_the_user_none_is_named() -> None:
    spec = make(WorkerRef(0), a_blueprint(run_as_user=None))["spec"]

    assert "runAsUser" not in spec["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True


def test_common_annotations_are_on_every_object() -> None:
    blueprint = a_blueprint(annotations={"team": "x"}, labels={"cost": "y"})

    for member in (Child.ANCHOR, Child.SCHEDULER, WorkerRef(0)):
        metadata = make(member, blueprint)["metadata"]
        assert metadata["annotations"]["team"] == "x"
        assert metadata["labels"]["cost"] == "y"


def test_the_scheduler_is_ready_once_its_health_page_answers() -> None:
    probe = dask(make(Child.SCHEDULER))["readinessProbe"]

    assert probe["httpGet"] == {"path": "/health", "port": 8787}


def test_default_commands_are_ones_that_old_and_new_distributed_have() -> None:
    """W4."""
    scheduler, worker = make(Child.SCHEDULER), make(WorkerRef(7))

    assert dask(scheduler)["args"] == [
        *("python", "-m", "distributed.cli.dask_scheduler"),
        *("--protocol", "tls"),
        *("--port", "8786"),
        *("--dashboard-address", ":8787"),
        *("--preload", "/etc/daskfleet/scheduler_plugin.py"),
    ]
    name = "c0123456789abcdef0123-worker-7"
    assert worker["metadata"]["name"] == name
    assert dask(worker)["args"] == [
        *("python", "-m", "distributed.cli.dask_worker"),
        "tls://dask-c0123456789abcdef0123.team-a.svc:8786",
        *("--name", name),
        *("--nthreads", "1"),
        *("--memory-limit", str(2 * 2**30)),
        *("--death-timeout", "600"),
    ]


def test_a_command_is_used_exactly_as_given_with_our_arguments_behind() -> None:
    spec = {
        "scheduler": {"command": ["my scheduler", "-x"]},
        "worker": {"command": ["dask-cuda-worker"], "threads": 3},
        "lifetimes": {"workerStartTimeoutSeconds": 0},
    }
    blueprint = a_blueprint(spec)

    scheduler, worker = make(Child.SCHEDULER, blueprint), make(WorkerRef(0), blueprint)

    assert dask(scheduler)["args"][:3] == ["my scheduler", "-x", "--protocol"]
    assert dask(worker)["args"][:1] == ["dask-cuda-worker"]
    assert "3" in dask(worker)["args"]
    assert "--death-timeout" not in dask(worker)["args"]


@pytest.mark.parametrize(
    ("settings", "resources", "want_resources", "want_arguments"),
    [
        pytest.param(
            {"cores": 0.5, "memory_bytes": 1000},
            {},
            {"limits": {"cpu": "500m", "memory": "1000"}},
            ("1", "1000"),
            id="exact, and requested as limited",
        ),
        pytest.param(
            {"cores": 2, "cores_limit": 3.7, "memory_limit_bytes": 3 * 2**30},
            {},
            {
                "limits": {"cpu": "3700m", "memory": str(3 * 2**30)},
                "requests": {"cpu": "2000m", "memory": str(2 * 2**30)},
            },
            ("3", str(3 * 2**30)),
            id="limited above what is requested",
        ),
        pytest.param(
            {"threads": 8},
            {"limits": {"memory": "4Gi", "nvidia.com/gpu": 1}},
            {"limits": {"cpu": "1000m", "memory": "4Gi", "nvidia.com/gpu": 1}},
            ("8", str(4 * 2**30)),
            id="the template's limits count",
        ),
    ],
)
def test_memory_and_threads_follow_the_limits(
    settings, resources, want_resources, want_arguments
) -> None:
    container = {"name": "dask-worker", "resources": resources}
    template = {"spec": {"containers": [container]}}
    blueprint = a_blueprint(
        {"worker": {"template": template}},
        worker=PodSettings(IMAGE, WORKER_COMMAND, **settings),
    )

    worker = dask(make(WorkerRef(0), blueprint))

    assert worker["resources"] == want_resources
    arguments = worker["args"]
    threads = arguments[arguments.index("--nthreads") + 1]
    memory = arguments[arguments.index("--memory-limit") + 1]
    assert (threads, memory) == want_arguments


def test_a_configuration_is_laid_under_the_clusters_own_template() -> None:
    settings = PodSettings(
        IMAGE,
        WORKER_COMMAND,
        image_pull_policy="Always",
        image_pull_secrets=("registry",),
        environment={"A": "1", "B": "2"},
        template={"spec": {"priorityClassName": "low", "nodeSelector": {"a": "1"}}},
    )
    own = {
        "metadata": {"annotations": {"x": "y"}, "labels": {"l": "m"}},
        "spec": {
            "priorityClassName": "high",
            "nodeSelector": {"b": "2"},
            "containers": [
                {"name": "dask-worker", "image": "mine", "env": [{"name": "B"}]},
                {"name": "sidecar", "image": "proxy"},
            ],
        },
    }
    blueprint = a_blueprint({"worker": {"template": own}}, worker=settings)

    pod = make(WorkerRef(0), blueprint)

    assert dask(pod)["image"] == "mine"
    assert dask(pod)["imagePullPolicy"] == "Always"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["nodeSelector"] == {"a": "1", "b": "2"}
    assert env_of(pod)["A"] == "1"
    assert [c["name"] for c in pod["spec"]["containers"]] == ["dask-worker", "sidecar"]
    assert pod["metadata"]["labels"]["l"] == "m"
    assert pod["metadata"]["annotations"]["x"] == "y"


def test_workers_of_one_spec_have_one_hash_and_of_another_another() -> None:
    def hash_of(ordinal, **spec):
        pod = make(WorkerRef(ordinal), a_blueprint(spec))
        return pod["metadata"]["annotations"][ANNOTATION_HASH]

    assert hash_of(1) == hash_of(20)
    assert hash_of(1) != hash_of(1, worker={"threads": 9})


def test_routes_are_for_those_controllers_alone_that_make_them() -> None:
    with pytest.raises(InvariantError, match="makes no route objects"):
        make(Child.ROUTE_HTTP, a_blueprint(routes=None))


def test_a_dashboard_goes_through_the_middlewares_of_the_platform_if_any() -> None:
    routes = RouteSettings(prefix="/dask", middlewares=(("here", ""),))
    plain = a_blueprint(routes=routes)

    theirs = make(Child.ROUTE_HTTP)["spec"]["routes"][0]
    local = make(Child.ROUTE_HTTP, plain)["spec"]["routes"][0]

    assert theirs["middlewares"][0] == {"name": "strip", "namespace": "dask"}
    assert local["middlewares"][0] == {"name": "here"}
    path = f"/dask/clusters/{plain.cluster.name}"
    assert local["match"] == f"Path(`{path}`) || PathPrefix(`{path}/`)"


def test_a_dashboard_goes_through_our_own_middlewares_whatever_else_there_is() -> None:
    made = [make(ref) for ref in KINDS]

    names = [
        m["name"] for m in make(Child.ROUTE_HTTP)["spec"]["routes"][0]["middlewares"]
    ]
    login, _, strip, headers = (middleware["spec"] for middleware in made)
    assert names[-4:] == [middleware["metadata"]["name"] for middleware in made]
    assert (
        login["forwardAuth"]["address"]
        == "http://api-daskfleet.dask:8000/api/v1/dashboard-auth"
    )
    assert strip["stripPrefixRegex"]["regex"][0].startswith("^/clusters/")
    assert headers["headers"]["customRequestHeaders"]["Cookie"] == ""
    owners = {m["metadata"]["ownerReferences"][0]["name"] for m in made}
    assert owners == {"daskfleet-anchor"}


def test_a_middleware_is_named_after_what_it_holds_and_whose_it_is() -> None:
    def name(**changes: object) -> str:
        blueprint = a_blueprint(**changes)
        return str(make(KINDS[0], blueprint)["metadata"]["name"])

    other_url = RouteSettings(login_url="http://api/login")
    names = {name(), name(routes=other_url), name(instance="other")}

    assert len(names) == 3
    assert name(routes=RouteSettings(prefix="/dask")) == name()
    assert all(len(text) <= 63 for text in names)


def test_middlewares_are_for_those_controllers_alone_that_make_routes() -> None:
    with pytest.raises(InvariantError, match="makes no route objects"):
        make(KINDS[0], a_blueprint(routes=None))


def test_a_mirrored_secret_is_not_made_of_nothing() -> None:
    with pytest.raises(InvariantError, match="needs its credentials"):
        make_member(a_blueprint(), Child.CREDENTIALS)


def test_a_sound_spec_is_not_refused_before_there_is_an_anchor() -> None:
    assert find_refusal(a_blueprint(anchor_uid=None)) is None


@pytest.mark.parametrize(
    ("spec", "want_field"),
    [
        pytest.param({"targetNamespace": "X"}, "spec.targetNamespace", id="parsed"),
        pytest.param(
            {"worker": {"template": {"spec": {"restartPolicy": "Always"}}}},
            "spec.worker.template.spec.restartPolicy",
            id="sealed",
        ),
        pytest.param(
            {"scheduler": {"template": {"spec": {"containers": "x"}}}},
            "spec.scheduler.template.spec.containers",
            id="does not fit",
        ),
    ],
)
def test_a_spec_of_which_no_sound_pod_can_be_made_is_refused(spec, want_field) -> None:
    refusal = find_refusal(a_blueprint(spec, anchor_uid=None))

    assert refusal is not None
    assert refusal.field == want_field


@pytest.mark.parametrize("amount", ["lots", "1 Gi"])
def test_an_amount_that_is_none_is_refused_with_its_path(amount) -> None:
    container = {"name": "dask-worker", "resources": {"limits": {"memory": amount}}}
    template = {"spec": {"containers": [container]}}

    with pytest.raises(InvalidRequest, match=r"resources\.limits\.memory: .* is no"):
        make(WorkerRef(0), a_blueprint({"worker": {"template": template}}))
